"""Decision trees that say how many registers ptxas gives a kernel, from what the cost model counts before lowering (decision 168).

scikit-learn grows each tree on rows drawn with replacement, by entropy of the registers in steps of STEPS. A leaf says the number that
is within NEAR of most of its rows. The trees' median counts."""
import bisect
import math
import statistics

TREES, LEAVES, LEAF_ROWS = 9, 40, 10
NEAR = 0.15
STEPS = [16, 20, 24, 29, 31, 33, 37, 41, 44, 47, 49, 53, 57, 61, 65, 69, 74, 81, 88, 97, 106, 118, 129, 140, 153, 169, 185, 205, 230]
MOST = 255
SIDE_SHARE = 0.7  # inputs that a split may look at
BESIDE = 0.1  # weight of a launch that is not its candidate's widest


def given(rows):
    """The number of registers within NEAR of most rows (registers, weight); of several the middle one."""
    share = [0.0] * (MOST + 1)
    for registers, weight in rows:
        for number in range(math.ceil(registers * (1 - NEAR)), min(math.floor(registers * (1 + NEAR)), MOST) + 1):
            share[number] += weight
    best = [number for number, x in enumerate(share) if x >= max(share) - 1e-9]
    return best[len(best) // 2]


def settled(tree, node, rows):
    """The splits below, (input, limit, not above, above), with what all rows say at the leaves, not only those drawn; or that number."""
    if tree.children_left[node] < 0:
        return given([row[1:] for row in rows])
    i, limit = int(tree.feature[node]), round(float(tree.threshold[node]), 2)
    low = settled(tree, tree.children_left[node], [row for row in rows if row[0][i] <= limit])
    high = settled(tree, tree.children_right[node], [row for row in rows if row[0][i] > limit])
    return low if low == high else (i, limit, low, high)


def grow(rows, seed=1):
    """`rows`: (inputs, registers, weight)."""
    import numpy
    from sklearn.tree import DecisionTreeClassifier
    rand, trees = numpy.random.default_rng(seed), []
    inputs, weight = numpy.array([x[0] for x in rows]), numpy.array([x[2] for x in rows])
    step = numpy.array([bisect.bisect_left(STEPS, x[1]) for x in rows])
    for number in range(TREES):
        drawn = numpy.bincount(rand.integers(len(rows), size=len(rows)), minlength=len(rows))
        some = drawn > 0
        model = DecisionTreeClassifier(criterion="entropy", max_leaf_nodes=LEAVES, min_samples_leaf=LEAF_ROWS, max_features=SIDE_SHARE,
                                       random_state=number)
        model.fit(inputs[some], step[some], sample_weight=(drawn * weight)[some])
        trees.append(settled(model.tree_, 0, rows))
    return trees


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
