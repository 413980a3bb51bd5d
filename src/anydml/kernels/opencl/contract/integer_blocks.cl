kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void products(global const uchar *a, global const uchar *b, STREAM_POINTERS, constant long *n, global const long *batches,
              global const long *table, global uint *bitmap, global int *counts, long slot, long first) {
  BEGIN_BLOCK
  local int a_zero[BLOCK], b_zero[BLOCK];
  for (int s = 0; s < height; ++s) a_zero[s] = A_ZERO((r0 + s));
  for (int c = 0; c < width; ++c) b_zero[c] = B_ZERO(place[c][0], place[c][1], place[c][2]);
  for (int k0 = 0; k0 < terms; k0 += AT_ONCE) {
    int count = min(AT_ONCE, terms - k0);
    pack(a_pack, b_pack, a, b, n, table, column, place, a_zero, b_zero, k0, count, r0, height, width);
    multiply(a_pack, b_pack, sum, count, height, width);
  }
  for (int s = 0; s < height; ++s) for (int t = 0; t < width; ++t) {
    int r = r0 + s, z = place[t][0], y = place[t][1], x = place[t][2];
    if (element((uint)sum[s][t], STREAM_PLACES)) {
      mark(bitmap, (batch * rows + r) * (long)columns + c0 + t);
      atomic_inc((volatile global int *)counts + slot);
    }
  }
}
