"""The comparison on a real broker: classic and quorum queues, client and broker processor time."""

import os
import statistics
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

TICK_S = 1 / os.sysconf('SC_CLK_TCK')


def tree(root):
    """The process and all below it."""
    parents = {}
    for entry in Path('/proc').iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / 'stat').read_text().rsplit(')', 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) * TICK_S)
    found = {root}
    grown = True
    while grown:
        more = {pid for pid, (parent, _) in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return sum(parents[pid][1] for pid in found if pid in parents)


def run(o, clients, run_client, progress):
    uri = os.environ.get('ACQUIT_BROKER_URI')
    if not uri:
        sys.exit('no broker: bench/compare/run --broker VERSION starts one')
    address = urlsplit(uri)
    pid = int((Path(os.environ['ACQUIT_BROKER_DIR']) / 'pid').read_text())
    fill = o.build / 'compare' / 'acquit-fill'
    clients = [c for c in clients if c.group != 'drain' and 'message,' not in c.name]
    prefetches = [int(p) for p in (o.prefetch or '256,2000').split(',')]
    types = o.queues.split(',')
    body = 16
    rounds = o.rounds or (1 if o.short else 3)
    messages = 10_000 if o.short else o.messages
    runs = {}
    for number in range(rounds):
        for kind in types:
            for prefetch in prefetches[:1] if o.short else prefetches:
                for client in clients:
                    progress(f'round {number + 1} of {rounds}: {kind}, prefetch {prefetch}, {client.name}')
                    queue = f'acquit-compare-{kind}'
                    subprocess.run([fill, uri, queue, kind, str(messages), str(body)], check=True, timeout=300)
                    try:
                        before = tree(pid)
                        result = run_client(client.arguments(address.hostname, address.port, queue, prefetch, messages,
                                                             body), limit=300)
                        result['broker_cpu_us'] = (tree(pid) - before) * 1e6 / messages
                    except Exception as why:  # the others go on
                        print(f'{client.name}: failed: {why}')
                        result = None
                    finally:
                        subprocess.run([fill, uri, queue, 'delete'], check=True, timeout=60)
                    runs.setdefault((kind, prefetch, client.name), []).append(result)
    progress('')
    print()
    version = os.environ.get('ACQUIT_BROKER_VERSION', '?')
    for kind in types:
        for prefetch in prefetches[:1] if o.short else prefetches:
            print_table(version, kind, prefetch, clients, runs, messages, rounds)
    return {'broker': version, 'runs': [{'queue': k, 'prefetch': p, 'client': c, 'rounds': r}
                                        for (k, p, c), r in runs.items()]}


def print_table(version, kind, prefetch, clients, runs, messages, rounds):
    def median(client, what):
        values = [r[what] for r in runs.get((kind, prefetch, client), []) if r]
        return statistics.median(values) if values else None

    def ratio(above, below, what):
        pairs = zip(runs.get((kind, prefetch, above), []), runs.get((kind, prefetch, below), []))
        values = [a[what] / b[what] for a, b in pairs if a and b and b[what]]
        return statistics.median(values) if values else None

    print(f'RabbitMQ {version}, {kind} queue, prefetch {prefetch}, {messages} messages of 16 B, {rounds} rounds\n')
    print('| client | k messages/s | client CPU us | broker CPU us |\n|---|---|---|---|')
    for client in clients:
        if median(client.name, 'rate') is None:
            print(f'| {client.name} | failed | | |')
            continue
        print(f'| {client.name} | {median(client.name, "rate") / 1000:.1f} | {median(client.name, "cpu_us"):.2f} '
              f'| {median(client.name, "broker_cpu_us"):.1f} |')
    loop, single = 'acquit, consumer loop', 'acquit by hand, ack each'
    others = [(median(c.name, 'rate'), c.name) for c in clients if c.group == 'other' and median(c.name, 'rate')]
    print()
    if others:
        name = max(others)[1]
        value = ratio(loop, name, 'rate')
        if value:
            print(f'T10  rate / best other client ({name}): {value:.3f} (target at least 1): '
                  f'{"met" if value >= 1 else "MISSED"}')
    value = ratio(loop, single, 'broker_cpu_us')
    if value:
        print(f'T10  broker CPU / that of ours with an ack each: {value:.3f} (target at most 0.92): '
              f'{"met" if value <= 0.92 else "MISSED"}')
    print()
