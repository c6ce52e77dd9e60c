"""Measures consumers against each other: the table, and the targets that follow from it. bench/compare/run
builds everything and calls this.

Every client is a program with one command line (HOST PORT QUEUE PREFETCH MESSAGES MODE BODY) that prints one line of
JSON. They take turns: in each round every client runs once, and what is compared are medians of the ratios within a
round, because a machine drifts. The server is acquit-firehose, which is faster than any client and says so where it was
not, or a real broker.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import broker_run
import targets


@dataclass(frozen=True)
class Client:
    name: str                       # as in the tables
    command: tuple                  # before HOST
    mode: str
    group: str                      # 'other', 'ours' or 'drain'
    multiple: bool = True           # settles several at once
    after: tuple = ()               # arguments behind BODY
    drain: bool = False             # another command line: no mode, no body
    start: int = 20_000             # messages of the first run, which tells how many are worth it

    def arguments(self, host, port, queue, prefetch, messages, body):
        if self.drain:
            return [*self.command, host, str(port), queue, str(prefetch), str(messages), *self.after]
        return [*self.command, host, str(port), queue, str(prefetch), str(messages), self.mode, str(body), *self.after]


def find_clients(build, others):
    """All clients that are there, and those that are not with the reason."""
    own = build / 'compare' / 'acquit-consumer'
    clients = [
        Client('drain, plain recv', (build / 'firehose/acquit-drain',), '', 'drain', after=('--io', 'recv'), drain=True,
               start=400_000),
        Client('drain, our loop', (build / 'firehose/acquit-drain',), '', 'drain', after=('--io', 'loop'), drain=True,
               start=400_000),
        Client('acquit, consumer loop', (own,), 'loop', 'ours', start=400_000),
        Client('acquit, handler coroutine', (own,), 'handler', 'ours', start=400_000),
        Client('acquit, plain function', (own,), 'function', 'ours', start=400_000),
        Client('acquit by hand, ack each', (own,), 'each', 'ours', multiple=False, start=200_000),
    ]
    skipped = []

    def add(label, command, modes):
        program = command[-1]
        if not Path(program).exists():
            reason = Path(f'{others}/{Path(command[0]).name}.skipped')
            skipped.append((label, reason.read_text().strip() if reason.exists() else 'it was not built'))
            return
        for suffix, mode, multiple in modes:
            clients.append(Client(f'{label}{suffix}', tuple(command), mode, 'other', multiple))

    both = (('each', False), ('64', True))
    add('rabbitmq-c', [others / 'rabbitmqc'],
        [(f' {api}, {words(every)}', f'{api}:{every}', multiple)
         for api in ('frames', 'message') for every, multiple in both])
    add('amqp091-go', [others / 'amqp091'], [(f', {words(every)}', every, multiple) for every, multiple in both])
    node = shutil.which('node')
    if node is None:
        skipped.append(('amqplib', 'there is no node'))
    else:
        add('amqplib', [node, others / 'node' / 'consumer.js'],
            [(f', {words(every)}', every, multiple) for every, multiple in both])
    skipped.append(('AMQP-CPP', 'Debian does not package it'))
    return clients, skipped


def words(every):
    return 'ack each' if every == 'each' else f'multiple {every}'


class Failed(Exception):
    pass


def run_client(arguments, limit=120):
    arguments = [str(a) for a in arguments]
    try:
        done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f'{Path(arguments[0]).name}: not done after {limit} s')
    if done.returncode != 0:
        raise Failed(f'{Path(arguments[0]).name} {" ".join(arguments[1:])}: {done.stderr.strip() or done.returncode}')
    return json.loads(done.stdout.strip().splitlines()[-1])


class Firehose:
    """One stand-in server for one run."""

    def __init__(self, program, messages, body, extra=()):
        self.process = subprocess.Popen(
            [str(program), '--listen', '127.0.0.1:0', '--messages', str(messages), '--size', str(body), '--once',
             '--json', '-', *extra],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        said = self.process.stdout.readline().split()
        if said[:2] != ['listening', 'on']:
            self.process.kill()
            raise Failed('acquit-firehose does not listen')
        self.host, port = said[2].rsplit(':', 1)
        self.port = int(port)

    def result(self):
        try:
            out, _ = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed('acquit-firehose does not end')
        return json.loads(out)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Bench:
    def __init__(self, build, seconds, send_buffer):
        self.firehose = build / 'firehose' / 'acquit-firehose'
        self.seconds = seconds
        self.send_buffer = ('--send-buffer', str(send_buffer))
        self.counts = {}            # (client, body, prefetch): messages that take about so long

    def once(self, client, body, prefetch, messages, extra=(), before=()):
        with Firehose(self.firehose, messages, body, (*self.send_buffer, *extra)) as server:
            result = run_client([*before, *client.arguments(server.host, server.port, 'q', prefetch, messages, body)])
            result['server'] = server.result()
        wrong = result['server']['settled_twice'] + result['server']['unknown_tags']
        if wrong or result['server']['left_unsettled'] > prefetch:
            raise Failed(f'{client.name}: {wrong} wrong settlements, '
                         f'{result["server"]["left_unsettled"]} left unsettled')
        return result

    def messages(self, client, body, prefetch):
        key = (client.name, body, prefetch)
        if key not in self.counts:
            start = max(client.start // max(1, body // 512), 2000)
            first = self.once(client, body, prefetch, start)
            self.counts[key] = int(min(max(first['rate'] * self.seconds, start), 50_000_000))
        return self.counts[key]

    def run(self, client, body, prefetch):
        return self.once(client, body, prefetch, self.messages(client, body, prefetch))


@dataclass
class Results:
    """Runs by (client, body, prefetch), the n-th of each in the n-th round."""
    runs: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)

    def add(self, client, body, prefetch, run):
        self.runs.setdefault((client, body, prefetch), []).append(run)

    def median(self, client, body, prefetch, what):
        runs = [r[what] for r in self.runs.get((client, body, prefetch), []) if r and what in r]
        return statistics.median(runs) if runs else None

    def ratio(self, above, below, body, prefetch, what='cpu_us'):
        """Median over the rounds of above / below."""
        pairs = zip(self.runs.get((above, body, prefetch), []), self.runs.get((below, body, prefetch), []))
        ratios = [a[what] / b[what] for a, b in pairs if a and b and b[what]]
        return statistics.median(ratios) if ratios else None

    def server_was_the_limit(self, client, body, prefetch):
        runs = [r for r in self.runs.get((client, body, prefetch), []) if r]
        return bool(runs) and sum(r['server']['server_was_the_limit'] for r in runs) * 2 > len(runs)


def progress(text):
    if sys.stderr.isatty():
        print(f'\r{text:<100}', end='', file=sys.stderr, flush=True)


def measure(bench, clients, bodies, prefetches, rounds):
    results = Results()
    for number in range(rounds):
        for prefetch in prefetches:
            for body in bodies:
                for client in clients:
                    progress(f'round {number + 1} of {rounds}: {body} bytes, prefetch {prefetch}, {client.name}')
                    try:
                        results.add(client.name, body, prefetch, bench.run(client, body, prefetch))
                    except Failed as why:
                        results.add(client.name, body, prefetch, None)
                        results.failures[client.name] = str(why)
    progress('')
    return results


def size_name(body):
    return f'{body // 1024} KiB' if body >= 1024 and body % 1024 == 0 else f'{body} B'


def figure(value):
    return f'{value:.3f}' if value < 1 else f'{value:.2f}' if value < 10 else f'{value:.0f}'


def table(results, clients, bodies, prefetch):
    lines = [f'k messages/s · CPU us/message; prefetch {prefetch}', '',
             '| client | ' + ' | '.join(size_name(b) for b in bodies) + ' |', '|---' * (len(bodies) + 1) + '|']
    limited = False
    for client in clients:
        cells = []
        for body in bodies:
            cpu = results.median(client.name, body, prefetch, 'cpu_us')
            if cpu is None:
                cells.append('failed')
                continue
            rate = results.median(client.name, body, prefetch, 'rate') / 1000
            mark = results.server_was_the_limit(client.name, body, prefetch)
            limited = limited or mark
            cells.append(f'{rate:.0f}{"*" if mark else ""} · {figure(cpu)}')
        lines.append(f'| {client.name} | ' + ' | '.join(cells) + ' |')
    if limited:
        lines += ['', '\\* the server waited for the client less than 5 % of the time: the rate is not the client\'s limit']
    return '\n'.join(lines)


def count_syscalls(bench, clients, prefetches, body=16):
    """System calls per message by strace, what they cost to start with left out."""
    strace = shutil.which('strace')
    if strace is None:
        return 'syscalls per message: skipped: there is no strace'
    lines = ['system calls per message, 16 B (strace -c -f; start-up left out)', '',
             '| client | ' + ' | '.join(f'prefetch {p}' for p in prefetches) + ' |', '|---' * (len(prefetches) + 1) + '|']
    for client in clients:
        cells = []
        for prefetch in prefetches:
            few = 5_000
            many = few + (200_000 if client.group != 'other' else 40_000)
            calls = []
            for messages in (few, many):
                progress(f'strace {client.name}')
                with tempfile.NamedTemporaryFile(mode='r', prefix='acquit-strace-') as out:
                    try:
                        bench.once(client, body, prefetch, messages, before=(strace, '-c', '-f', '-o', out.name))
                        total = [line.split() for line in out.read().splitlines() if line.endswith('total')][0]
                        calls.append(int(total[3]))
                    except (Failed, IndexError, ValueError):
                        break
            cells.append(f'{(calls[1] - calls[0]) / (many - few):.4f}' if len(calls) == 2 else 'failed')
        lines.append(f'| {client.name} | ' + ' | '.join(cells) + ' |')
    progress('')
    return '\n'.join(lines)


def machine():
    cpu = next((line.split(':')[1].strip() for line in open('/proc/cpuinfo') if line.startswith('model name')), '?')
    return f'{os.cpu_count()} cores ({cpu}), Linux {os.uname().release}, load {os.getloadavg()[0]:.1f}'


def parse():
    p = argparse.ArgumentParser(prog='bench/compare/run', description=__doc__.split('\n\n')[0])
    p.add_argument('build', type=Path, help=argparse.SUPPRESS)
    p.add_argument('others', type=Path, help=argparse.SUPPRESS)
    p.add_argument('--rounds', type=int, help='in each of which every client runs once (5; real broker 3)')
    p.add_argument('--seconds', type=float, default=0.7, help='about so long for each run (0.7)')
    p.add_argument('--bodies', default='16,128,1024,16384', help='sizes in bytes')
    p.add_argument('--prefetch', help='windows (4096,256; real broker 256,2000)')
    # What waits in sockets for a slow reader falls out of the caches once it is megabytes, and receiving it costs three
    # times as much; whether that happens is a matter of luck. With less it is the same for every client and every run.
    p.add_argument('--send-buffer', type=int, default=524_288,
                   help='of the stand-in server, bytes, at most net.core.wmem_max; 0: as the kernel likes (524288)')
    p.add_argument('--only', default='', help='clients whose name matches this expression')
    p.add_argument('--short', action='store_true', help='under a minute: two sizes, one round; says little')
    p.add_argument('--syscalls', action='store_true', help='count system calls, by strace')
    p.add_argument('--broker', metavar='VERSION', help='measure on a real RabbitMQ: 3.10, 4.0 or 4.3')
    p.add_argument('--queues', default='classic,quorum', help='types of queues there')
    p.add_argument('--messages', type=int, default=50_000, help='in a queue there, for each run')
    p.add_argument('--json', metavar='FILE', help='all figures, - for standard output')
    return p.parse_args()


def main():
    o = parse()
    clients, skipped = find_clients(o.build.resolve(), o.others.resolve())
    clients = [c for c in clients if re.search(o.only, c.name)]
    if not clients:
        sys.exit('no client has such a name')
    began = time.monotonic()
    print(f'machine: {machine()}')
    for label, why in skipped:
        print(f'{label}: skipped: {why}')
    if not o.broker:
        print(f'server: acquit-firehose, send buffer {o.send_buffer or "as the kernel likes"}\n')
    if o.broker:
        record = broker_run.run(o, clients, run_client, progress)
    else:
        bodies = [int(b) for b in o.bodies.split(',')]
        prefetches = [int(p) for p in (o.prefetch or '4096,256').split(',')]
        rounds = o.rounds or 5
        if o.short:
            bodies, prefetches, rounds, o.seconds = [16, 1024], [4096], o.rounds or 1, 0.15
        bench = Bench(o.build.resolve(), o.seconds, o.send_buffer)
        results = measure(bench, clients, bodies, prefetches, rounds)
        for prefetch in prefetches:
            print(table(results, clients, bodies, prefetch) + '\n')
        for name, why in results.failures.items():
            print(f'{name}: failed: {why}')
        pings = targets.ping_pong(bench, o.build.resolve(), Client, rounds, o.short, progress)
        print(targets.lines(results, clients, pings))
        if o.syscalls:
            print('\n' + count_syscalls(bench, clients, prefetches))
        record = {'runs': [{'client': c, 'body': b, 'prefetch': p, 'rounds': runs}
                           for (c, b, p), runs in results.runs.items()], 'ping_pong': pings}
        if o.short:
            print('\nA short run: one round, no verdict.')
    print(f'\n{time.monotonic() - began:.0f} s, {machine()}')
    if o.json:
        text = json.dumps({'machine': machine(), **record}, indent=1)
        if o.json == '-':
            print(text)
        else:
            Path(o.json).write_text(text + '\n')


if __name__ == '__main__':
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
