"""Settlement policies against a real broker; bench/flush/run starts this with one. See there."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'compare'))
from broker_run import tree  # noqa: E402

POLICIES = {
    'ack each': ['--settle', 'single'],
    'hold 0': ['--settle', 'auto', '--hold', '0'],
    'hold 100 us': ['--settle', 'auto', '--hold', '100'],
    'hold 200 us': ['--settle', 'auto', '--hold', '200'],
    'hold 1 ms': ['--settle', 'auto', '--hold', '1000'],
    'hold 5 ms': ['--settle', 'auto', '--hold', '5000'],
}
DEFAULT = 'hold 100 us'
BASE = 'ack each'
QUORUM_PREFETCH_MAX = 2000  # RabbitMQ: a quorum queue gives no consumer more


def consume(tools, uri, queue, prefetch, messages, words, pid):
    """Runs the load tool on a full queue, and asks the system what that cost the broker."""
    with tempfile.NamedTemporaryFile(suffix='.json') as file:
        before = tree(pid)
        subprocess.run([tools / 'load/acquit-bench', '-h', uri, '-x', '0', '-y', '1', '-u', queue, '-p', '-q', str(prefetch),
                        '-D', str(messages), '-z', '120', '--settlement-latency', '--json', file.name, *words],
                       check=True, timeout=180, stdout=subprocess.DEVNULL)
        broker = tree(pid) - before
        result = json.loads(Path(file.name).read_text())
    settlement = result['settlement'][0]
    latency = settlement['latency_us']
    return {'rate': result['rates']['received'], 'broker_us': broker * 1e6 / messages,
            'client_us': result['cpu']['us_per_message'], 'per_frame': settlement['messages_per_frame'],
            'p50_us': latency['p50'], 'p99_us': latency['p99']}


def main():
    parser = argparse.ArgumentParser(prog='bench/flush/run', description=__doc__)
    parser.add_argument('tools', type=Path, help=argparse.SUPPRESS)
    parser.add_argument('--queues', default='classic,quorum')
    parser.add_argument('--prefetch', default='1,16,64,256,1024,4096')
    parser.add_argument('--messages', type=int, default=60_000, help='of each run; a tenth where the prefetch is below 16')
    parser.add_argument('--size', type=int, default=128, help='body in bytes')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--policies', default=','.join(POLICIES))
    parser.add_argument('--short', action='store_true')
    parser.add_argument('--json', type=Path)
    o = parser.parse_args()
    if o.short:
        o.rounds, o.messages, o.prefetch = 1, 5_000, '16,256'
    uri = os.environ['ACQUIT_BROKER_URI']
    pid = int((Path(os.environ['ACQUIT_BROKER_DIR']) / 'pid').read_text())
    version = os.environ['ACQUIT_BROKER_VERSION']
    policies = [name for name in POLICIES if name in o.policies.split(',')]
    runs = {}
    for number in range(o.rounds):
        for kind in o.queues.split(','):
            for prefetch in map(int, o.prefetch.split(',')):
                if kind == 'quorum':
                    prefetch = min(prefetch, QUORUM_PREFETCH_MAX)
                messages = o.messages if prefetch >= 16 else o.messages // 10
                for policy in policies:
                    print(f'\r\x1b[Kround {number + 1} of {o.rounds}: {kind}, prefetch {prefetch}, {policy}', end='',
                          file=sys.stderr, flush=True)
                    queue = f'acquit-flush-{kind}'
                    subprocess.run([o.tools / 'compare/acquit-fill', uri, queue, kind, str(messages), str(o.size)],
                                   check=True, timeout=300)
                    try:
                        result = consume(o.tools, uri, queue, prefetch, messages, POLICIES[policy], pid)
                    finally:
                        subprocess.run([o.tools / 'compare/acquit-fill', uri, queue, 'delete'], check=True, timeout=60)
                    runs.setdefault((kind, prefetch), {}).setdefault(policy, []).append(result)
    print('\r\x1b[K', end='', file=sys.stderr)
    print(f'RabbitMQ {version}, {o.size} bytes; medians of {o.rounds}, ratios to "{BASE}" of the same round')
    for (kind, prefetch), by_policy in runs.items():
        print(f'\n{kind} queue, prefetch {prefetch}\n')
        print('| policy | k/s | ratio | broker CPU us | ratio | client CPU us | messages per frame | latency p50 / p99 us |')
        print('|---|---|---|---|---|---|---|---|')
        for policy, results in by_policy.items():
            def median(what, results=results):
                return statistics.median(r[what] for r in results)

            def ratio(what, results=results, base=by_policy.get(BASE)):
                return statistics.median(r[what] / b[what] for r, b in zip(results, base)) if base else float('nan')
            mark = ' (default)' if policy == DEFAULT else ''
            print(f'| {policy}{mark} | {median("rate") / 1000:.1f} | {ratio("rate"):.2f} | {median("broker_us"):.1f} | '
                  f'{ratio("broker_us"):.2f} | {median("client_us"):.2f} | {median("per_frame"):.1f} | '
                  f'{median("p50_us"):.0f} / {median("p99_us"):.0f} |')
    if o.json:
        o.json.write_text(json.dumps([{'queue': kind, 'prefetch': prefetch, 'policy': policy, 'rounds': results}
                                      for (kind, prefetch), by_policy in runs.items()
                                      for policy, results in by_policy.items()], indent=1))


main()
