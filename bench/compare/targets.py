"""The targets of speed, by number, with what was measured."""

import statistics

LOOP = 'acquit, consumer loop'
HANDLER = 'acquit, handler coroutine'
DRAIN = 'drain, our loop'
PLAIN_DRAIN = 'drain, plain recv'


def best(results, clients, body, prefetch, wanted):
    """Of the clients that are wanted the one with the least CPU per message."""
    found = [(results.median(c.name, body, prefetch, 'cpu_us'), c.name) for c in clients
             if c.group == 'other' and wanted(c)]
    found = [each for each in found if each[0] is not None]
    return min(found)[1] if found else None


def line(number, what, value, target, at_least, unit=''):
    if value is None:
        return f'{number}  {what}: not measured here (target {"at least" if at_least else "at most"} {target}{unit})'
    met = value >= target if at_least else value <= target
    return (f'{number}  {what}: {value:.4g}{unit} (target {"at least" if at_least else "at most"} {target}{unit}): '
            f'{"met" if met else "MISSED"}')


def lines(results, clients, pings, prefetch=4096):
    out = []
    for body, target in ((16, 2.2), (128, 1.9), (1024, 1.4), (16384, 1.15)):
        out.append(line('T1', f'{body} B, consumer loop / {DRAIN}', results.ratio(LOOP, DRAIN, body, prefetch), target,
                        False))
        plain = results.ratio(LOOP, PLAIN_DRAIN, body, prefetch)
        if plain is not None:
            out.append(f'      the same / {PLAIN_DRAIN}: {plain:.4g}')
    for number, body, target, wanted, text in (
            ('T2', 16, 6, lambda c: c.multiple, 'that coalesces by hand'),
            ('T3', 16, 18, lambda c: not c.multiple, 'that acks each'),
            ('T4', 1024, 2, lambda c: True, ''),
            ('T4', 16384, 1.2, lambda c: True, '')):
        other = best(results, clients, body, prefetch, wanted)
        ratio = results.ratio(other, LOOP, body, prefetch) if other else None
        name = f'{body} B, best other client{" " + text if text else ""}{f" ({other})" if other else ""} / ours'
        out.append(line(number, name, ratio, target, True))
    out.append(line('T5', '16 B, handler coroutine / consumer loop', results.ratio(HANDLER, LOOP, 16, prefetch), 1.6,
                    False))
    for window, target in ((4096, 0.002), (256, 0.012)):
        out.append(line('T6', f'16 B, prefetch {window}, system calls per message',
                        results.median(LOOP, 16, window, 'syscalls'), target, False))
    out.append(line('T9', 'prefetch 1, CPU per round / an epoll loop', pings['cpu_ratio'], 1.0, False))
    out.append(line('T9', 'paced, median of sending to settlement / an epoll loop', pings['paced_ratio'], 1.15, False))
    if pings['cpu_us']:
        ours, other = pings['cpu_us']
        out.append(f'      CPU per round {ours:.2f} us, epoll loop {other:.2f}; round {pings["round_us"][0]:.1f} us, '
                   f'epoll loop {pings["round_us"][1]:.1f}')
    if pings['paced_us']:
        ours, other = pings['paced_us']
        out.append(f'      paced at 1,000/s: p50 {ours:.1f} us, epoll loop {other:.1f}; '
                   f'p99 {pings["paced_p99_us"][0]:.1f} us, epoll loop {pings["paced_p99_us"][1]:.1f}')
    return '\n'.join(out)


def ping_pong(bench, build, client, rounds, short, progress):
    """Prefetch 1: one delivery, one settlement, and again; and deliveries that come by the clock. In turns."""
    ours = client('acquit', (build / 'compare/acquit-consumer',), 'loop', 'ours')
    other = client('epoll loop', (build / 'compare/epoll-pingpong',), 'each', 'other')
    count, paced = (5_000, 300) if short else (30_000, 1_500)
    runs, p50, p99 = [], [], []
    for number in range(rounds):
        pair = []
        for each in (ours, other) if number % 2 == 0 else (other, ours):
            progress(f'round {number + 1} of {rounds}: prefetch 1, {each.name}')
            ping = bench.once(each, 16, 1, count)
            slow = bench.once(each, 16, 256, paced, extra=('--rate', '1000'))['server']['settlement_latency_us']
            pair.append((each is not ours, ping, slow))
        pair.sort(key=lambda entry: entry[0])
        runs.append([entry[1] for entry in pair])
        p50.append([entry[2]['p50'] for entry in pair])
        p99.append([entry[2]['p99'] for entry in pair])
    progress('')
    middle = statistics.median

    def both(values):
        return [middle(each[0] for each in values), middle(each[1] for each in values)]

    return {
        'cpu_ratio': middle(a['cpu_us'] / b['cpu_us'] for a, b in runs),
        'cpu_us': both([(a['cpu_us'], b['cpu_us']) for a, b in runs]),
        'round_us': both([(1e6 / a['rate'], 1e6 / b['rate']) for a, b in runs]),
        'paced_ratio': middle(a / b for a, b in p50),
        'paced_us': both(p50),
        'paced_p99_us': both(p99),
    }
