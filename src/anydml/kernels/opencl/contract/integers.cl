/* Sums of products of 8-bit integers less their zero points, in tiles of ROWS x COLUMNS elements by THREADS work items. Each adds
   GROUPS x 4 elements, modulo 2^32. The numbers of a contraction are those of products.cl. */
#define PUT(k0) \
  for (int i = 0; i < ROWS * DEPTH / THREADS; ++i) { \
    int e = (int)lid + i * THREADS, k = A_BY_TERM ? e % DEPTH : e / ROWS, r = A_BY_TERM ? e / DEPTH : e % ROWS; \
    a_tile[k][r] = (k0) + k < terms && r0 + r < rows ? (int)next_a[i] - a_zero[r] : 0; \
  } \
  for (int i = 0; i < COLUMNS * DEPTH / THREADS; ++i) { \
    int e = (int)lid + i * THREADS, k = B_BY_TERM ? e % DEPTH : e / COLUMNS, c = B_BY_TERM ? e / DEPTH : e % COLUMNS; \
    b_tile[k][c] = (k0) + k < terms && c0 + c < columns && inside >> i & 1 ? (int)next_b[i] - b_zero[c] : 0; \
  }

kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void products(global const uchar *a, global const uchar *b, STREAM_POINTERS, constant long *n, global const long *batches,
              global const long *table, global uint *bitmap, global int *counts, long slot,
              long first) {
  local int a_tile[DEPTH][ROWS + 4] __attribute__((aligned(16))), b_tile[DEPTH][COLUMNS + 4] __attribute__((aligned(16)));
  local int a_zero[ROWS], b_zero[COLUMNS];
  local long column[COLUMNS];
  local int place[COLUMNS][3];
  A_TYPE next_a[ROWS * DEPTH / THREADS];
  B_TYPE next_b[COLUMNS * DEPTH / THREADS];
  uint sum[GROUPS][4], inside = 0, lid = get_local_id(0), mine_x = lid % ACROSS, mine_y = lid / ACROSS;
  int rows = (int)n[N_ROWS], columns = (int)n[N_COLUMNS], terms = (int)(n[N_CHANNELS] * n[N_POSITIONS]);
  long tile = first + (long)get_group_id(0), over = (columns + COLUMNS - 1) / COLUMNS, down = (rows + ROWS - 1) / ROWS;
  int c0 = (int)(tile % over) * COLUMNS, r0 = (int)(tile / over % down) * ROWS;
  long batch = tile / over / down;
  global const long *offsets = batches + batch * (2 + STREAMS);
  a += offsets[0];
  b += offsets[1];
  if (lid < COLUMNS) {
    int c = min(c0 + (int)lid, columns - 1), x = c % (int)n[N_X], line = c / (int)n[N_X], y = line % (int)n[N_Y], z = line / (int)n[N_Y];
    column[lid] = z * n[N_B_Z] + y * n[N_B_Y] + x * n[N_B_X];
    place[lid][0] = z, place[lid][1] = y, place[lid][2] = x;
    b_zero[lid] = B_ZERO(z, y, x);
  }
  if (lid < ROWS) {
    int r = min(r0 + (int)lid, rows - 1);
    a_zero[lid] = A_ZERO(r);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < GROUPS; ++i) for (int j = 0; j < 4; ++j) sum[i][j] = 0;
  if (terms) { FETCH(ROWS, 0, table) }
  for (int k0 = 0; k0 < terms; k0 += DEPTH) {
    PUT(k0)
    barrier(CLK_LOCAL_MEM_FENCE);
    FETCH(ROWS, k0 + DEPTH, table)
    UNROLLED
    for (int k = 0; k < DEPTH; ++k) {
      int u[GROUPS], v[4];
      for (int i = 0; i < GROUPS; ++i) u[i] = a_tile[k][mine_y * GROUPS + i];
      for (int j = 0; j < 4; ++j) v[j] = b_tile[k][mine_x * 4 + j];
      for (int i = 0; i < GROUPS; ++i) for (int j = 0; j < 4; ++j) sum[i][j] += (uint)(u[i] * v[j]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 0; i < GROUPS; ++i) for (int j = 0; j < 4; ++j) {
    int s = mine_y * GROUPS + i, t = mine_x * 4 + j, r = r0 + s, z = place[t][0], y = place[t][1], x = place[t][2];
    if (r >= rows || c0 + t >= columns) continue;
    if (element(sum[i][j], STREAM_PLACES)) {
      mark(bitmap, (batch * rows + r) * (long)columns + c0 + t);
      atomic_inc((volatile global int *)counts + slot);
    }
  }
}
