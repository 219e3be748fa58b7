"""Decision trees that say how many registers ptxas gives a kernel, from what the cost model counts before lowering (decision 168).

Each tree is grown on rows drawn with replacement, by entropy of the registers in steps of STEPS; the leaf with most to gain is split
next. A leaf says the number that is within NEAR of most of its rows. The trees' median counts."""
import bisect
import math
import random
import statistics

TREES, LEAVES, LEAF_ROWS, CUTS = 9, 40, 10, 150
NEAR = 0.15
STEPS = [16, 20, 24, 29, 31, 33, 37, 41, 44, 47, 49, 53, 57, 61, 65, 69, 74, 81, 88, 97, 106, 118, 129, 140, 153, 169, 185, 205, 230]
MOST = 255
SIDE_SHARE = 0.7  # inputs that a split may look at
BESIDE = 0.1  # weight of a launch that is not its candidate's widest


def entropy(counts):
    """Times the sum of counts."""
    total = sum(counts)
    return sum(c * math.log(total / c) for c in counts if c > 0)


def given(rows):
    """The number of registers within NEAR of most rows (registers, weight); of several the middle one."""
    share = [0.0] * (MOST + 1)
    for registers, weight in rows:
        for number in range(math.ceil(registers * (1 - NEAR)), min(math.floor(registers * (1 + NEAR)), MOST) + 1):
            share[number] += weight
    best = [number for number, x in enumerate(share) if x >= max(share) - 1e-9]
    return best[len(best) // 2]


def cuts_of(values):
    """Between neighbouring values, at most CUTS."""
    known = sorted(set(values))
    if len(known) > CUTS:
        ordered = sorted(values)
        known = sorted({ordered[i * (len(ordered) - 1) // CUTS] for i in range(CUTS + 1)})
    return [round((a + b) / 2, 2) for a, b in zip(known, known[1:])]


class Grower:
    """`rows`: (inputs, registers, weight)."""

    def __init__(self, rows, rand):
        self.rows, self.rand = rows, rand
        self.cuts = [cuts_of([x[0][i] for x in rows]) for i in range(len(rows[0][0]))]
        self.place = [[bisect.bisect_left(self.cuts[i], x[0][i]) for i in range(len(self.cuts))] for x in rows]
        self.step = [bisect.bisect_left(STEPS, x[1]) for x in rows]

    def split(self, chosen):
        """The best split of rows [(row, weight)]: (gain, input, cut) or None."""
        inputs = sorted(self.rand.sample(range(len(self.cuts)), max(1, round(SIDE_SHARE * len(self.cuts)))))
        whole = [0.0] * (len(STEPS) + 1)
        for row, weight in chosen:
            whole[self.step[row]] += weight
        before, best = entropy(whole), None
        for i in inputs:
            if not self.cuts[i]:
                continue
            found = [None] * (len(self.cuts[i]) + 1)
            for row, weight in chosen:
                at = self.place[row][i]
                if found[at] is None:
                    found[at] = [0, [0.0] * len(whole)]
                found[at][0] += 1
                found[at][1][self.step[row]] += weight
            left, number = [0.0] * len(whole), 0
            for at, here in enumerate(found[:-1]):
                if here is None:
                    continue
                number += here[0]
                left = [a + b for a, b in zip(left, here[1])]
                if number < LEAF_ROWS or len(chosen) - number < LEAF_ROWS:
                    continue
                gain = before - entropy(left) - entropy([a - b if a - b > 1e-9 else 0 for a, b in zip(whole, left)])
                if best is None or gain > best[0] + 1e-9:
                    best = gain, i, at
        return best

    def tree(self):
        """Nested: (input, limit, not above, above), or the registers of a leaf."""
        drawn = [0] * len(self.rows)
        for _ in self.rows:
            drawn[self.rand.randrange(len(self.rows))] += 1
        root = [[(row, n * self.rows[row][2]) for row, n in enumerate(drawn) if n]]
        leaves = [(self.split(root[0]), root)]
        for _ in range(LEAVES - 1):
            open_leaves = [leaf for leaf in leaves if leaf[0]]
            if not open_leaves:
                break
            (_, i, at), node = best = max(open_leaves, key=lambda leaf: leaf[0][0])
            leaves.remove(best)
            sides = [[x for x in node[0] if self.place[x[0]][i] <= at]], [[x for x in node[0] if self.place[x[0]][i] > at]]
            node[:] = [i, self.cuts[i][at], *sides]
            leaves += [(self.split(side[0]), side) for side in sides]
        return settled(root, self.rows)


def settled(node, rows):
    """The splits, with what all rows say at the leaves, not only those drawn."""
    if len(node) == 1:
        return given([row[1:] for row in rows])
    i, limit = node[:2]
    low = settled(node[2], [row for row in rows if row[0][i] <= limit])
    high = settled(node[3], [row for row in rows if row[0][i] > limit])
    return low if low == high else (i, limit, low, high)


def grow(rows, seed=1):
    rand = random.Random(seed)
    grower = Grower(rows, rand)
    return [grower.tree() for _ in range(TREES)]


def says(trees, inputs):
    found = []
    for node in trees:
        while not isinstance(node, int):
            node = node[2] if inputs[node[0]] <= node[1] else node[3]
        found.append(node)
    return statistics.median(found)


def table(trees, names):
    """Rows of registers_gpu_trees.def."""
    def rows_of(node):
        if isinstance(node, int):
            return [f"GIVEN({node})"]
        low, high = rows_of(node[2]), rows_of(node[3])
        return [f"SPLIT({names[node[0]]}, {node[1]:g}, {len(low) + 1})", *low, *high]
    found = []
    for node in trees:
        rows = rows_of(node)
        found += [f"TREE({len(rows)})", *rows]
    return found
