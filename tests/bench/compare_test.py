"""The arithmetic of bench/compare: medians of ratios within a round, and targets met and missed."""

import sys
import types
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'bench' / 'compare'))
import compare  # noqa: E402
import targets  # noqa: E402


def run(cpu, limit=False, syscalls=None):
    out = {'cpu_us': cpu, 'rate': 1e6 / cpu, 'server': {'server_was_the_limit': limit}}
    if syscalls is not None:
        out['syscalls'] = syscalls
    return out


def results(runs):
    made = compare.Results()
    for client, rounds in runs.items():
        for each in rounds:
            made.add(client, 16, 4096, each)
    return made


def client(name, group='other', multiple=True):
    return types.SimpleNamespace(name=name, group=group, multiple=multiple)


class Comparing(unittest.TestCase):
    def test_a_ratio_is_the_median_of_the_ratios_of_each_round(self):
        # A slow second round, for both: a ratio of medians would say 1.5.
        r = results({'a': [run(3), run(60), run(2)], 'b': [run(1), run(20), run(2)]})
        self.assertEqual(r.ratio('a', 'b', 16, 4096), 3)

    def test_a_round_in_which_one_failed_does_not_count(self):
        r = results({'a': [None, run(4)], 'b': [run(1), run(2)]})
        self.assertEqual(r.ratio('a', 'b', 16, 4096), 2)
        self.assertEqual(r.median('a', 16, 4096, 'cpu_us'), 4)

    def test_what_was_never_measured_has_no_figure(self):
        r = results({'a': [None]})
        self.assertIsNone(r.ratio('a', 'b', 16, 4096))
        self.assertIsNone(r.median('a', 16, 4096, 'cpu_us'))
        self.assertIn('not measured here', targets.line('T1', 'x', None, 2, False))

    def test_targets_are_met_or_missed_by_their_direction(self):
        self.assertTrue(targets.line('T2', 'x', 6, 6, True).endswith(': met'))
        self.assertTrue(targets.line('T2', 'x', 5.99, 6, True).endswith(': MISSED'))
        self.assertTrue(targets.line('T1', 'x', 2.2, 2.2, False).endswith(': met'))
        self.assertTrue(targets.line('T1', 'x', 2.21, 2.2, False).endswith(': MISSED'))

    def test_the_best_other_client_is_the_one_with_the_least_cpu(self):
        clients = [client('a'), client('b'), client('c', multiple=False), client('ours', 'ours')]
        r = results({'a': [run(3)], 'b': [run(2)], 'c': [run(1)], 'ours': [run(0.1)]})
        self.assertEqual(targets.best(r, clients, 16, 4096, lambda c: c.multiple), 'b')
        self.assertEqual(targets.best(r, clients, 16, 4096, lambda c: True), 'c')
        self.assertIsNone(targets.best(r, clients, 128, 4096, lambda c: True))

    def test_all_lines_can_be_written_of_nothing_and_of_all(self):
        pings = {'cpu_ratio': None, 'cpu_us': None, 'paced_ratio': None, 'paced_us': None}
        nothing = targets.lines(results({}), [], pings)
        self.assertNotIn('MISSED', nothing)
        r = results({targets.LOOP: [run(0.1, syscalls=0.001)], targets.DRAIN: [run(0.05)], 'other': [run(1)]})
        some = targets.lines(r, [client('other')], pings)
        self.assertIn('T1  16 B, consumer loop / drain, our loop: 2 (target at most 2.2): met', some)
        self.assertIn('(other) / ours: 10 (target at least 6): met', some)

    def test_a_server_that_was_the_limit_is_marked_in_the_table(self):
        r = results({'a': [run(2, True), run(2, True), run(2)], 'b': [run(2, True), run(2), run(2)]})
        text = compare.table(r, [client('a'), client('b')], [16], 4096)
        self.assertIn('| a | 500* · 2.00 |', text)
        self.assertIn('| b | 500 · 2.00 |', text)


if __name__ == '__main__':
    unittest.main()
