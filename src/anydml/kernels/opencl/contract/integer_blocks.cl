kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void products(global const uchar *a, global const uchar *b, STREAM_POINTERS, constant long *n, global const long *batches,
              global const long *table, global uint *bitmap, global int *counts, long slot, long first) {
  BEGIN_BLOCK
  local int a_zero[BLOCK], b_zero[BLOCK];
  for (int s = 0; s < height; ++s) a_zero[s] = A_ZERO((r0 + s));
  for (int c = 0; c < width; ++c) b_zero[c] = B_ZERO(place[0][c], place[1][c], place[2][c]);
  for (int k0 = 0; k0 < terms; k0 += AT_ONCE) {
    int count = min(AT_ONCE, terms - k0);
    pack(a_pack, b_pack, a, b, n, table, column, place, a_zero, b_zero, k0, count, r0, height, width);
    multiply(a_pack, b_pack, sum, count, height, width);
  }
  BEGIN_ROWS
  for (int s = 0; s < height; ++s) {
    int r = r0 + s;
    READ_ROWS
    ulong made[BLOCK];
    for (int t = 0; t < BLOCK; ++t) made[t] = first_value((uint)sum[s][t] ROW_VALUES(t));
    WRITE_ROW(
      int z = place[0][t]; int y = place[1][t]; int x = place[2][t];
      if (element((uint)sum[s][t], STREAM_PLACES)) {
        mark(bitmap, (batch * rows + r) * (long)columns + c0 + t);
        atomic_inc((volatile global int *)counts + slot);
      })
  }
}
