// Two texts line by line. Pure.

const LINES_MAX = 3000; // above it lines are compared place by place: the table would not fit

/**
 * [[left, right, isSame]]: lines side by side, null where one side has none. Longest common subsequence after what both begin
 * and end with.
 */
export function sideBySide(leftText, rightText) {
  const left = leftText.split('\n');
  const right = rightText.split('\n');
  let head = 0;
  while (head < left.length && head < right.length && left[head] === right[head]) head++;
  let tail = 0;
  while (tail < left.length - head && tail < right.length - head && left.at(-1 - tail) === right.at(-1 - tail)) tail++;
  const same = lines => lines.map(line => [line, line, true]);
  const middle = between(left.slice(head, left.length - tail), right.slice(head, right.length - tail));
  return [...same(left.slice(0, head)), ...middle, ...same(left.slice(left.length - tail))];
}

function between(left, right) {
  if (left.length > LINES_MAX || right.length > LINES_MAX) return paired(left, right);
  const width = right.length + 1;
  const length = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i--)
    for (let j = right.length - 1; j >= 0; j--)
      length[i * width + j] = left[i] === right[j] ? length[(i + 1) * width + j + 1] + 1 : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
  const rows = [];
  let gone = [];
  let come = [];
  const flush = () => {
    rows.push(...paired(gone, come));
    [gone, come] = [[], []];
  };
  for (let i = 0, j = 0; i < left.length || j < right.length;) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      flush();
      rows.push([left[i++], right[j++], true]);
    } else if (j >= right.length || (i < left.length && length[(i + 1) * width + j] >= length[i * width + j + 1])) gone.push(left[i++]);
    else come.push(right[j++]);
  }
  flush();
  return rows;
}

const paired = (left, right) => Array.from({length: Math.max(left.length, right.length)}, (_, k) => [left[k] ?? null, right[k] ?? null, left[k] === right[k]]);
