/* Sums of products of float64 in tiles of SIDE x SIDE elements, for each of several batches. The terms are added in order;
   after so many of them, their sum is added to the total. Strides are in bytes, and so are the places in the scratch. */
#if !PROCESSOR
kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void tiles(global uchar *scratch, long a, long b, long to, int rows, int columns, int terms, long a_row, long b_column,
           long b_term, long to_row, long a_batch, long b_batch, long to_batch, int together) {
  local double a_tile[DEPTH][SIDE + 1], b_tile[DEPTH][SIDE + 1];
  int lid = (int)get_local_id(0), x = lid % 16, y = lid / 16;
  long over = (columns + SIDE - 1) / SIDE, down = (rows + SIDE - 1) / SIDE, tile = (long)get_group_id(0);
  int c0 = (int)(tile % over) * SIDE, r0 = (int)(tile / over % down) * SIDE, until = 0;
  long batch = tile / over / down;
  global const uchar *from_a = scratch + a + batch * a_batch, *from_b = scratch + b + batch * b_batch;
  double total[4][4], part[4][4];
  for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) total[i][j] = part[i][j] = -0.0; /* -0 if all terms are */
  for (int k0 = 0; k0 < terms; k0 += DEPTH) {
    for (int e = lid; e < SIDE * DEPTH; e += THREADS) {
      int k = min(k0 + e % DEPTH, terms - 1), r = min(r0 + e / DEPTH, rows - 1);
      a_tile[e % DEPTH][e / DEPTH] = *(global const double *)(from_a + r * a_row + k * 8L);
      int i = b_term == 8 ? e % DEPTH : e / SIDE, j = b_term == 8 ? e / DEPTH : e % SIDE;
      k = min(k0 + i, terms - 1);
      b_tile[i][j] = *(global const double *)(from_b + min(c0 + j, columns - 1) * b_column + k * b_term);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int count = min(DEPTH, terms - k0);
    for (int k = 0; k < count; ++k) {
      double u[4], v[4];
      for (int i = 0; i < 4; ++i) u[i] = a_tile[k][y + 16 * i], v[i] = b_tile[k][x + 16 * i];
      for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) part[i][j] = fma(u[i], v[j], part[i][j]);
    }
    if ((until += DEPTH) == together) {
      until = 0;
      for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) total[i][j] += part[i][j], part[i][j] = -0.0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) {
    int r = r0 + y + 16 * i, c = c0 + x + 16 * j;
    if (r < rows && c < columns)
      *(global double *)(scratch + to + batch * to_batch + r * to_row + c * 8L) = total[i][j] + part[i][j];
  }
}
#else
/* a * b + c, rounded once, in each lane: some drivers have no fma of vectors */
double8 fused(double8 a, double8 b, double8 c) {
  return (double8)(fma(a.s0, b.s0, c.s0), fma(a.s1, b.s1, c.s1), fma(a.s2, b.s2, c.s2), fma(a.s3, b.s3, c.s3),
                   fma(a.s4, b.s4, c.s4), fma(a.s5, b.s5, c.s5), fma(a.s6, b.s6, c.s6), fma(a.s7, b.s7, c.s7));
}
/* on a processor, by one work item: a core's registers have the sums of 8 rows and of two vectors of columns at a time */
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void tiles(global uchar *scratch, long a, long b, long to, int rows, int columns, int terms, long a_row, long b_column,
           long b_term, long to_row, long a_batch, long b_batch, long to_batch, int together) {
  local double packed[BLOCK][SIDE] __attribute__((aligned(64))), sum[SIDE][SIDE] __attribute__((aligned(64)));
  long over = (columns + SIDE - 1) / SIDE, down = (rows + SIDE - 1) / SIDE, tile = (long)get_group_id(0);
  int c0 = (int)(tile % over) * SIDE, r0 = (int)(tile / over % down) * SIDE;
  int height = min(SIDE, rows - r0), width = min(SIDE, columns - c0);
  long batch = tile / over / down;
  global const uchar *from_a = scratch + a + batch * a_batch + r0 * a_row, *from_b = scratch + b + batch * b_batch + c0 * b_column;
  bool apart = together == BLOCK; /* else all terms are added in order */
  for (int r = 0; r < SIDE; ++r) for (int c = 0; c < SIDE; ++c) sum[r][c] = -0.0; /* -0 if all terms are */
  for (int k = 0; k < BLOCK; ++k) for (int c = 0; c < SIDE; ++c) packed[k][c] = 0.0;
  for (int k0 = 0; k0 < terms; k0 += BLOCK) {
    int count = min(BLOCK, terms - k0);
    for (int c = 0; c < width; ++c)
      for (int k = 0; k < count; ++k) packed[k][c] = *(global const double *)(from_b + c * b_column + (k0 + k) * b_term);
    for (int i = 0; i < height; i += 8) {
      global const double *row[8];
      for (int r = 0; r < 8; ++r) row[r] = (global const double *)(from_a + min(i + r, height - 1) * a_row) + k0;
      for (int j = 0; j < width; j += 16) {
        double8 part[8][2];
        _Pragma("unroll")
        for (int r = 0; r < 8; ++r)
          for (int m = 0; m < 2; ++m) part[r][m] = apart ? (double8)(-0.0) : *(local double8 *)&sum[i + r][j + 8 * m];
        for (int k = 0; k < count; ++k) {
          double8 v = *(local double8 *)&packed[k][j], w = *(local double8 *)&packed[k][j + 8];
          _Pragma("unroll")
          for (int r = 0; r < 8; ++r) {
            double8 u = (double8)(row[r][k]);
            part[r][0] = fused(u, v, part[r][0]);
            part[r][1] = fused(u, w, part[r][1]);
          }
        }
        for (int r = 0; r < 8; ++r)
          for (int m = 0; m < 2; ++m) {
            local double8 *into = (local double8 *)&sum[i + r][j + 8 * m];
            *into = apart ? *into + part[r][m] : part[r][m];
          }
      }
    }
  }
  for (int r = 0; r < height; ++r) {
    global double *into = (global double *)(scratch + to + batch * to_batch + (r0 + r) * to_row) + c0;
    for (int c = 0; c < width; ++c) into[c] = sum[r][c];
  }
}
#endif
