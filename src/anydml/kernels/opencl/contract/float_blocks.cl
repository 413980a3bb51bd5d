kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void products(global const uchar *a, global const uchar *b, STREAM_POINTERS, constant long *n, global const long *batches,
              global const long *table, global double *norms, global uint *bitmap, global int *dense, long first) {
  BEGIN_BLOCK
  local double beside[2][BLOCK] __attribute__((aligned(64)));
  local ushort listed[MOST];
  for (int r = 0; r < BLOCK; ++r) beside[0][r] = beside[1][r] = 0.0;
  for (int k0 = 0; k0 < terms; k0 += AT_ONCE) {
    int count = min(AT_ONCE, terms - k0);
    pack(a_pack, b_pack, a, b, n, table, column, place, 0, 0, k0, count, r0, height, width);
    multiply(a_pack, b_pack, sum, count, height, width);
    for (int r = 0; r < BLOCK; r += LANES) {
      VECTOR s = *(local VECTOR *)&beside[0][r], t = *(local VECTOR *)&beside[1][r];
      for (int k = 0; k < count; ++k) {
        VECTOR u = *(local VECTOR *)&a_pack[k][r], v = *(local VECTOR *)&b_pack[k][r];
        s = fused(u, u, s), t = fused(v, v, t);
      }
      *(local VECTOR *)&beside[0][r] = s, *(local VECTOR *)&beside[1][r] = t;
    }
  }
  global double *into = norms + batch * (rows + columns);
  for (int i = 0; i < 2; ++i) for (int r = 0; r < BLOCK; ++r) beside[i][r] = sqrt(beside[i][r]) * (1 + (terms + 8) * 0x1p-53);
  if (!c0) for (int r = 0; r < height; ++r) into[r0 + r] = beside[0][r];
  if (!r0) for (int c = 0; c < width; ++c) into[rows + c0 + c] = beside[1][c];
  double factor = (min(terms, AT_ONCE) + terms / AT_ONCE + 16) * 0x1p-53;
  int found = 0;
  bool odd[BLOCK];
  for (int t = 0; t < BLOCK; ++t) odd[t] = t < width && is_odd(n, place[0][t], place[1][t], place[2][t]);
  BEGIN_ROWS
  for (int s = 0; s < height; ++s) {
    int r = r0 + s;
    READ_ROWS
    ulong made[BLOCK];
    for (int t = 0; t < BLOCK; ++t) {
      double total = sum[s][t], error = factor * (beside[0][s] * beside[1][t]);
      error = as_long(total) == as_long(-0.0) ? 0.0 : error; /* all terms are */
      made[t] = first_value(total, error, odd[t] ROW_VALUES(t));
    }
    WRITE_ROW(
      if (found < MOST) listed[found] = (ushort)(s * BLOCK + t);
      ++found;)
  }
  dense[block] = found > MOST;
  if (found <= MOST)
    for (int e = 0; e < found; ++e) mark(bitmap, (batch * rows + r0 + listed[e] / BLOCK) * (long)columns + c0 + listed[e] % BLOCK);
}

/* as `multiply`, for sums that are kept as pairs: see the other kernel `pairs` */
void multiply_pairs(local const double (*a_pack)[BLOCK], local const double (*b_pack)[BLOCK], local double (*sum)[BLOCK],
                    local double (*rest)[BLOCK], int count, int height, int width) {
  for (int j = 0; j < width; j += 2 * LANES)
    for (int i = 0; i < height; i += 4) {
      VECTOR head[4][2], tail[4][2];
      _Pragma("unroll")
      for (int r = 0; r < 4; ++r)
        for (int m = 0; m < 2; ++m) {
          head[r][m] = *(local VECTOR *)&sum[i + r][j + m * LANES];
          tail[r][m] = *(local VECTOR *)&rest[i + r][j + m * LANES];
        }
      for (int k = 0; k < count; ++k) {
        VECTOR v[2] = {*(local const VECTOR *)&b_pack[k][j], *(local const VECTOR *)&b_pack[k][j + LANES]};
        _Pragma("unroll")
        for (int r = 0; r < 4; ++r) {
          VECTOR u = (VECTOR)(a_pack[k][i + r]);
          _Pragma("unroll")
          for (int m = 0; m < 2; ++m) {
            VECTOR made = fused(u, v[m], head[r][m]);
            tail[r][m] += fused(u, v[m], head[r][m] - made);
            head[r][m] = made;
          }
        }
      }
      for (int r = 0; r < 4; ++r)
        for (int m = 0; m < 2; ++m) {
          *(local VECTOR *)&sum[i + r][j + m * LANES] = head[r][m];
          *(local VECTOR *)&rest[i + r][j + m * LANES] = tail[r][m];
        }
    }
}

kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pairs(global const uchar *a, global const uchar *b, STREAM_POINTERS, constant long *n, global const long *batches,
           global const long *table, global const double *norms, global uint *bitmap, global const int *dense, long first) {
  if (!dense[first + (long)get_group_id(0)]) return;
  BEGIN_BLOCK
  local double rest[BLOCK][BLOCK] __attribute__((aligned(64))), least[2][BLOCK];
  global const double *size = norms + batch * (rows + columns);
  for (int r = 0; r < BLOCK; ++r) for (int c = 0; c < BLOCK; ++c) {
    bool there = r < height && c < width;
    sum[r][c] = there ? 24.0 * power(size[r0 + r]) * power(size[rows + c0 + c]) : 0.0;
    rest[r][c] = 0.0;
  }
  for (int r = 0; r < BLOCK; ++r) least[0][r] = least[1][r] = INFINITY;
  for (int k0 = 0; k0 < terms; k0 += AT_ONCE) {
    int count = min(AT_ONCE, terms - k0);
    pack(a_pack, b_pack, a, b, n, table, column, place, 0, 0, k0, count, r0, height, width);
    multiply_pairs(a_pack, b_pack, sum, rest, count, height, width);
    for (int k = 0; k < count; ++k)
      for (int r = 0; r < BLOCK; ++r) {
        double u = fabs(a_pack[k][r]), v = fabs(b_pack[k][r]);
        least[0][r] = u != 0.0 && u < least[0][r] ? u : least[0][r];
        least[1][r] = v != 0.0 && v < least[1][r] ? v : least[1][r];
      }
  }
  for (int i = 0; i < 2; ++i)
    for (int r = 0; r < BLOCK; ++r) least[i][r] = least[i][r] < INFINITY ? power(least[i][r]) * 0x1p-23 : INFINITY;
  double factor = (terms + 16) * 0x1p-53;
  for (int s = 0; s < height; ++s) for (int t = 0; t < width; ++t) {
    int r = r0 + s, z = place[0][t], y = place[1][t], x = place[2][t];
    double one = size[r], other = size[rows + c0 + t], total = sum[s][t] - 24.0 * power(one) * power(other);
    double head = total + rest[s][t], back = head - total, low = (total - (head - back)) + (rest[s][t] - back);
    if (pair_element(head, low, factor * (one * other), factor, least[0][s] * least[1][t], is_odd(n, z, y, x), STREAM_PLACES))
      mark(bitmap, (batch * rows + r) * (long)columns + c0 + t);
  }
}
