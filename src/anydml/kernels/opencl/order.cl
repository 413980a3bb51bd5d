// Sorting by digits, lists of nonzero elements, and the exclusive sums of counts that both need.
//
// Elements are in chunks, each a work item's, which goes through its chunk in order: equal keys keep their order.

#define RADIX 16
#define DIGIT 4

// --- exclusive sums ---

// The sums of blocks of counts.
kernel void summed(global const uint *counts, global uint *sums, long n, long first, long past) {
  long i = first + get_global_id(0);
  if (i >= past) return;
  uint sum = 0;
  for (long k = i * BLOCK, end = min(k + BLOCK, n); k < end; ++k) sum += counts[k];
  sums[i] = sum;
}

// The sum of all counts before each one. sums: that of the counts before each block; without blocks, there is a single one.
kernel void spread(global uint *counts, global const uint *sums, long blocks, long n, long first, long past) {
  long i = first + get_global_id(0);
  if (i >= past) return;
  uint sum = blocks > 1 ? sums[i] : 0;
  for (long k = i * BLOCK, end = min(k + BLOCK, n); k < end; ++k) {
    uint count = counts[k];
    counts[k] = sum;
    sum += count;
  }
}

#ifdef RANKED
// shape: for each dimension of lines, its size and its strides in bytes in the source, the values and the positions
long4 place(global const long *shape, long line) {
  long4 at = 0;
  for (int d = DIMS - 1; d >= 0; --d) {
    long size = shape[4 * d], rest = line / size;
    at += (line - rest * size) * (long4)(0, shape[4 * d + 1], shape[4 * d + 2], shape[4 * d + 3]);
    line = rest;
  }
  return at;
}

KEY key_at(global const uchar *source, long at) { return key_of(*(global const ELEMENT *)(source + at)); }

void store(
  global const uchar *source, long from, global uchar *values, long value, global uchar *positions, long position, uint k
) {
#ifdef VALUES
  *(global ELEMENT *)(values + value) = *(global const ELEMENT *)(source + from);
#endif
#ifdef POSITION
  *(global POSITION *)(positions + position) = (POSITION)k;
#endif
}

// The place of an element among those of a short line.
kernel void placed(
  global const uchar *source, long at, global uchar *values, long values_at, global uchar *positions, long positions_at,
  global const long *shape, long source_step, long values_step, long positions_step, long n, long k, long first, long past
) {
  long i = first + get_global_id(0);
  if (i >= past) return;
  long line = i / n, own = i - line * n;
  long4 to = place(shape, line) + (long4)(0, at, values_at, positions_at);
  KEY mine = key_at(source, to.y + own * source_step);
  long before = 0;
  for (long j = 0; j < n; ++j) {
    KEY other = key_at(source, to.y + j * source_step);
    before += other < mine || (other == mine && j < own);
  }
  if (before < k)
    store(
      source, to.y + own * source_step, values, to.z + before * values_step, positions, to.w + before * positions_step, own
    );
}

// The keys of lines and their positions. begin: the first line.
kernel void keyed(
  global const uchar *source, long at, global const long *shape, long source_step, long n, long begin,
  global KEY *keys, global uint *items, long first, long past
) {
  long i = first + get_global_id(0);
  if (i >= past) return;
  long line = i / n, own = i - line * n;
  keys[i] = key_at(source, at + place(shape, begin + line).y + own * source_step);
  items[i] = (uint)own;
}

// How often each digit occurs in a chunk, by line, digit and chunk.
kernel void counted(
  global const KEY *keys, global uint *counts, long n, long chunk, long chunks, int shift, long first, long past
) {
  long i = first + get_global_id(0);
  if (i >= past) return;
  long line = i / chunks, c = i - line * chunks;
  uint found[RADIX];
  for (int d = 0; d < RADIX; ++d) found[d] = 0;
  for (long j = c * chunk, end = min(j + chunk, n); j < end; ++j) ++found[(keys[line * n + j] >> shift) & (RADIX - 1)];
  for (int d = 0; d < RADIX; ++d) counts[(line * RADIX + d) * chunks + c] = found[d];
}

// Items in the order of a digit. counts: how many come before the first one of a digit and chunk.
kernel void ordered(
  global const KEY *keys, global const uint *items, global KEY *new_keys, global uint *new_items, global const uint *counts,
  long n, long chunk, long chunks, int shift, long first, long past
) {
  long i = first + get_global_id(0);
  if (i >= past) return;
  long line = i / chunks, c = i - line * chunks;
  uint next[RADIX];
  for (int d = 0; d < RADIX; ++d) next[d] = counts[(line * RADIX + d) * chunks + c];
  for (long j = c * chunk, end = min(j + chunk, n); j < end; ++j) {
    KEY key = keys[line * n + j];
    uint to = next[(key >> shift) & (RADIX - 1)]++;
    new_keys[to] = key;
    new_items[to] = items[line * n + j];
  }
}

// The first k elements of sorted lines.
kernel void results(
  global const uchar *source, long at, global uchar *values, long values_at, global uchar *positions, long positions_at,
  global const long *shape, long source_step, long values_step, long positions_step, long n, long k, long begin,
  global const uint *items, long first, long past
) {
  long i = first + get_global_id(0);
  if (i >= past) return;
  long line = i / k, rank = i - line * k;
  long4 to = place(shape, begin + line) + (long4)(0, at, values_at, positions_at);
  uint own = items[line * n + rank];
  store(
    source, to.y + (long)own * source_step, values, to.z + rank * values_step, positions, to.w + rank * positions_step, own
  );
}
#endif

#ifdef LISTED
// shape: for each dimension of the source, its size and its stride in bytes
bool counts_at(global const uchar *source, global const long *shape, long i, long *index) {
  for (int d = DIMS - 1; d >= 0; --d) {
    long size = shape[2 * d], rest = i / size;
    index[d] = i - rest * size;
    source += index[d] * shape[2 * d + 1];
    i = rest;
  }
  ELEMENT bits = *(global const ELEMENT *)source;
  return (ELEMENT)(bits << SIGNED_ZEROS) != 0;
}

// The number of nonzero elements of a chunk. There is one more count than chunks, so that the last sum is that of all.
kernel void nonzeros(
  global const uchar *source, long at, global const long *shape, global uint *counts, long n, long chunk, long first, long past
) {
  long i = first + get_global_id(0);
  if (i >= past) return;
  uint found = 0;
  long index[DIMS];
  for (long j = i * chunk, end = min(j + chunk, n); j < end; ++j) found += counts_at(source + at, shape, j, index);
  counts[i] = found;
}

// The coordinates of a chunk's nonzero elements, and zeros in the rows of the chunk behind the last one.
kernel void listed(
  global const uchar *source, long at, global const long *shape, global const uint *counts, long n, long chunk, long chunks,
  global uchar *total, long total_at, global uchar *rows, long rows_at, long row_step, long column_step, long first, long past
) {
  long i = first + get_global_id(0);
  if (i >= past) return;
  long all = counts[chunks], row = counts[i], index[DIMS];
  rows += rows_at;
  if (i == 0) *(global TOTAL *)(total + total_at) = (TOTAL)all;
  for (long j = i * chunk, end = min(j + chunk, n); j < end; ++j) {
    if (counts_at(source + at, shape, j, index)) {
      for (int c = 0; c < COLUMNS; ++c)
        *(global COORDINATE *)(rows + row * row_step + c * column_step) = (COORDINATE)index[DIMS - COLUMNS + c];
      ++row;
    }
    if (j >= all)
      for (int c = 0; c < COLUMNS; ++c) *(global COORDINATE *)(rows + j * row_step + c * column_step) = 0;
  }
}
#endif
