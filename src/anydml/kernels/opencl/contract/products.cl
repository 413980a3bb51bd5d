/* Sums of products in tiles of ROWS x COLUMNS elements by THREADS work items. Each adds GROUPS x 4 elements, in float64. */

double power(double x) { return as_double(as_long(x) & 0x7ff0000000000000L); }

bool is_odd(constant long *n, int z, int y, int x) {
#if PADDED
  return !(z >= n[N_INSIDE] && z < n[N_INSIDE + 1] && y >= n[N_INSIDE + 2] && y < n[N_INSIDE + 3]
           && x >= n[N_INSIDE + 4] && x < n[N_INSIDE + 5]);
#else
  return false;
#endif
}

#define PUT(HEIGHT, k0) \
  for (int i = 0; i < HEIGHT * DEPTH / THREADS; ++i) { \
    int e = (int)lid + i * THREADS, k = A_BY_TERM ? e % DEPTH : e / HEIGHT, r = A_BY_TERM ? e / DEPTH : e % HEIGHT; \
    a_tile[k][r] = (k0) + k < terms && r0 + r < rows ? A_WIDE(next_a[i]) : 0.0; \
  } \
  for (int i = 0; i < COLUMNS * DEPTH / THREADS; ++i) { \
    int e = (int)lid + i * THREADS, k = B_BY_TERM ? e % DEPTH : e / COLUMNS, c = B_BY_TERM ? e / DEPTH : e % COLUMNS; \
    b_tile[k][c] = (k0) + k < terms && c0 + c < columns && inside >> i & 1 ? B_WIDE(next_b[i]) : 0.0; \
  }
/* the row and the column in its tile of an element of a work item */
#define ROW_OF(i) ((int)mine_y * 2 + (i) / 2 * 2 * DOWN + (i) % 2)
#define COLUMN_OF(j) ((int)mine_x * 2 + (j) / 2 * 2 * ACROSS + (j) % 2)
#define TAKE(k, HIGH) \
  double u[HIGH], v[4]; \
  for (int i = 0; i < HIGH; i += 2) { double2 two_of = *(local const double2 *)&a_tile[k][ROW_OF(i)]; u[i] = two_of.x, u[i + 1] = two_of.y; } \
  for (int j = 0; j < 4; j += 2) { double2 two_of = *(local const double2 *)&b_tile[k][COLUMN_OF(j)]; v[j] = two_of.x, v[j + 1] = two_of.y; }
#define BEGIN(HEIGHT) \
  local double a_tile[DEPTH][HEIGHT + 2] __attribute__((aligned(16))), b_tile[DEPTH][COLUMNS + 2] __attribute__((aligned(16))); \
  local double beside[HEIGHT + COLUMNS]; \
  local long column[COLUMNS]; \
  local int place[COLUMNS][3]; \
  A_TYPE next_a[HEIGHT * DEPTH / THREADS]; \
  B_TYPE next_b[COLUMNS * DEPTH / THREADS]; \
  uint inside = 0; \
  uint lid = get_local_id(0), mine_x = lid % ACROSS, mine_y = lid / ACROSS; \
  int rows = (int)n[N_ROWS], columns = (int)n[N_COLUMNS], terms = (int)(n[N_CHANNELS] * n[N_POSITIONS]); \
  long tile = first + (long)get_group_id(0), over = (columns + COLUMNS - 1) / COLUMNS, down = (rows + HEIGHT - 1) / HEIGHT; \
  int c0 = (int)(tile % over) * COLUMNS, r0 = (int)(tile / over % down) * HEIGHT; \
  long batch = tile / over / down; \
  global const long *offsets = batches + batch * (2 + STREAMS); \
  a += offsets[0]; \
  b += offsets[1]; \
  if (lid < COLUMNS) { \
    int c = min(c0 + (int)lid, columns - 1), x = c % (int)n[N_X], line = c / (int)n[N_X], y = line % (int)n[N_Y], z = line / (int)n[N_Y]; \
    column[lid] = z * n[N_B_Z] + y * n[N_B_Y] + x * n[N_B_X]; \
    place[lid][0] = z, place[lid][1] = y, place[lid][2] = x; \
  } \
  barrier(CLK_LOCAL_MEM_FENCE);

#if TILES
kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void products(global const uchar *a, global const uchar *b, STREAM_POINTERS, constant long *n, global const long *batches,
              global const long *table, global double *norms, global uint *bitmap, global int *dense, long first) {
  BEGIN(ROWS)
  local uint found[ROWS / BLOCK];
  local ushort listed[ROWS / BLOCK][MOST];
  double sum[GROUPS][4], part[GROUPS][4], norm[4] = {0.0, 0.0, 0.0, 0.0};
  for (int i = 0; i < GROUPS; ++i) for (int j = 0; j < 4; ++j) sum[i][j] = part[i][j] = -0.0; /* -0 if all terms are */
  if (lid < ROWS / BLOCK) found[lid] = 0;
  if (terms) { FETCH(ROWS, 0, norms) }
  int until = 0;
  for (int k0 = 0; k0 < terms; k0 += DEPTH) {
    PUT(ROWS, k0)
    barrier(CLK_LOCAL_MEM_FENCE);
    FETCH(ROWS, k0 + DEPTH, norms)
    int count = min(DEPTH, terms - k0);
    if (count == DEPTH) {
      UNROLLED
      for (int k = 0; k < DEPTH; ++k) {
        TAKE(k, GROUPS)
        for (int i = 0; i < GROUPS; ++i) for (int j = 0; j < 4; ++j) part[i][j] = fma(u[i], v[j], part[i][j]);
      }
    } else
      for (int k = 0; k < count; ++k) {
        TAKE(k, GROUPS)
        for (int i = 0; i < GROUPS; ++i) for (int j = 0; j < 4; ++j) part[i][j] = fma(u[i], v[j], part[i][j]);
      }
    if (lid < ROWS + COLUMNS)
      for (int k = 0; k < DEPTH; k += 4)
        for (int i = 0; i < 4; ++i) { double v = lid < ROWS ? a_tile[k + i][lid] : b_tile[k + i][lid - ROWS]; norm[i] = fma(v, v, norm[i]); }
    if (++until == DEEP) {
      until = 0;
      for (int i = 0; i < GROUPS; ++i) for (int j = 0; j < 4; ++j) { sum[i][j] += part[i][j]; part[i][j] = -0.0; }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lid < ROWS + COLUMNS) {
    double size = sqrt((norm[0] + norm[1]) + (norm[2] + norm[3])) * (1 + (terms + 8) * 0x1p-53);
    beside[lid] = size;
    global double *into = norms + batch * (rows + columns);
    if (lid < ROWS) { if (!c0 && r0 + (int)lid < rows) into[r0 + lid] = size; }
    else if (!r0 && c0 + (int)lid - ROWS < columns) into[rows + c0 + lid - ROWS] = size;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  double factor = (min(terms, DEPTH * DEEP) + terms / (DEPTH * DEEP) + 16) * 0x1p-53;
  for (int i = 0; i < GROUPS; ++i) for (int j = 0; j < 4; ++j) {
    int s = ROW_OF(i), t = COLUMN_OF(j), r = r0 + s, z = place[t][0], y = place[t][1], x = place[t][2];
    if (r >= rows || c0 + t >= columns) continue;
    double total = sum[i][j] + part[i][j], error = factor * (beside[s] * beside[ROWS + t]);
    if (as_long(total) == as_long(-0.0)) error = 0.0; /* all terms are */
    if (first_element(total, error, is_odd(n, z, y, x), STREAM_PLACES)) {
      uint slot = atomic_inc((volatile local uint *)&found[s / BLOCK]);
      if (slot < MOST) listed[s / BLOCK][slot] = (ushort)(s % BLOCK * COLUMNS + t);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < ROWS / BLOCK; ++i) {
    if (r0 + i * BLOCK >= rows) break;
    uint many = found[i];
    long block = (batch * ((rows + BLOCK - 1) / BLOCK) + r0 / BLOCK + i) * over + c0 / COLUMNS;
    if (lid == 0) dense[block] = many > MOST;
    if (many <= MOST)
      for (uint e = lid; e < many; e += THREADS) {
        int at = listed[i][e];
        mark(bitmap, (batch * rows + r0 + i * BLOCK + at / COLUMNS) * (long)columns + c0 + at % COLUMNS);
      }
  }
}

/* The sums of blocks with many undecided elements, as pairs: a sum begins with a number that exceeds all partial sums, so that
   one subtraction gives the rounding error of each addition. */
kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void pairs(global const uchar *a, global const uchar *b, STREAM_POINTERS, constant long *n, global const long *batches,
           global const long *table, global const double *norms, global uint *bitmap, global const int *dense, long first) {
  if (!dense[first + (long)get_group_id(0)]) return;
  BEGIN(BLOCK)
  double sum[4][4], rest[4][4], least = INFINITY;
  global const double *size = norms + batch * (rows + columns);
  for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) {
    int r = min(r0 + ROW_OF(i), rows - 1), c = min(c0 + COLUMN_OF(j), columns - 1);
    sum[i][j] = 24.0 * power(size[r]) * power(size[rows + c]);
    rest[i][j] = 0.0;
  }
  if (terms) { FETCH(BLOCK, 0, norms) }
  for (int k0 = 0; k0 < terms; k0 += DEPTH) {
    PUT(BLOCK, k0)
    barrier(CLK_LOCAL_MEM_FENCE);
    FETCH(BLOCK, k0 + DEPTH, norms)
    int count = min(DEPTH, terms - k0);
    for (int k = 0; k < count; ++k) {
      TAKE(k, 4)
      for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) {
        double head = fma(u[i], v[j], sum[i][j]);
        rest[i][j] += fma(u[i], v[j], sum[i][j] - head);
        sum[i][j] = head;
      }
    }
    if (lid < BLOCK + COLUMNS)
      for (int k = 0; k < count; ++k) {
        double v = fabs(lid < BLOCK ? a_tile[k][lid] : b_tile[k][lid - BLOCK]);
        if (v != 0.0 && v < least) least = v;
      }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lid < BLOCK + COLUMNS) beside[lid] = least < INFINITY ? power(least) * 0x1p-23 : INFINITY;
  barrier(CLK_LOCAL_MEM_FENCE);
  double factor = (terms + 16) * 0x1p-53;
  for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) {
    int s = ROW_OF(i), t = COLUMN_OF(j), r = r0 + s, z = place[t][0], y = place[t][1], x = place[t][2];
    if (r >= rows || c0 + t >= columns) continue;
    double one = size[r], other = size[rows + c0 + t], total = sum[i][j] - 24.0 * power(one) * power(other);
    double head = total + rest[i][j], back = head - total, low = (total - (head - back)) + (rest[i][j] - back);
    if (pair_element(head, low, factor * (one * other), factor, beside[s] * beside[BLOCK + t], is_odd(n, z, y, x), STREAM_PLACES))
      mark(bitmap, (batch * rows + r) * (long)columns + c0 + t);
  }
}
#endif

double two(double a, double b, double *error) {
  double s = a + b, t = s - a;
  *error = (a - (s - t)) + (b - t);
  return s;
}
/* adds x to the sum whose parts are v[at] .. v[2], with v[3] a bound of what is lost */
void add(double *v, int at, double x) {
  for (; at < 3; ++at) v[at] = two(v[at], x, &x);
  v[3] += fabs(x);
}

/* Elements whose bits are set, by a sum in three float64: a work group adds the terms of one element. */
kernel __attribute__((reqd_work_group_size(SINGLES, 1, 1)))
void singles(global const uchar *a, global const uchar *b, STREAM_POINTERS, constant long *n, global const long *batches,
             global const long *table, global uint *bitmap, global uint *counts, long slot, long first,
             long words) {
  local double parts[SINGLES][4];
  local int counts_of[SINGLES];
  uint lid = get_local_id(0);
  int rows = (int)n[N_ROWS], columns = (int)n[N_COLUMNS], terms = (int)(n[N_CHANNELS] * n[N_POSITIONS]);
  long from = (first + (long)get_group_id(0)) * WORDS;
  for (long w = from; w < min(words, from + WORDS); ++w) {
    uint word = bitmap[w];
    for (uint todo = word; todo; todo &= todo - 1) {
      uint bit = 31 - clz(todo & -todo);
      long number = 32 * w + bit, line = number / columns;
      int c = (int)(number - line * columns), r = (int)(line % rows);
      global const long *offsets = batches + line / rows * (2 + STREAMS);
      int x = c % (int)n[N_X], y = c / (int)n[N_X] % (int)n[N_Y], z = c / (int)n[N_X] / (int)n[N_Y];
      global const uchar *a_row = a + offsets[0] + r * n[N_A_ROW];
      global const uchar *b_column = b + offsets[1] + z * n[N_B_Z] + y * n[N_B_Y] + x * n[N_B_X];
      double v[4] = {-0.0, 0.0, 0.0, 0.0};
      int number_of = 0;
      for (int k = (int)lid; k < terms; k += SINGLES) {
        bool counts;
        long at = b_term(n, table, k, z, y, x, &counts);
        if (!counts) continue;
        ++number_of;
        add(v, 0, A_WIDE(*(global const A_TYPE *)(a_row + a_term(n, table, k))) * B_WIDE(*(global const B_TYPE *)(b_column + at)));
      }
      for (int i = 0; i < 4; ++i) parts[lid][i] = v[i];
      counts_of[lid] = number_of;
      barrier(CLK_LOCAL_MEM_FENCE);
      if (lid == 0) {
        for (int o = 1; o < SINGLES; ++o) {
          bool finite = fabs(parts[o][0]) < INFINITY; /* the rounding errors beside an infinity are NaN */
          v[3] += parts[o][3];
          add(v, 0, parts[o][0]);
          add(v, 1, finite ? parts[o][1] : 0.0);
          add(v, 2, finite ? parts[o][2] : 0.0);
          number_of += counts_of[o];
        }
        if (!number_of) v[0] = 0.0; /* a sum without terms */
        if (sum_element(v[0], v[1], v[2], v[3], STREAM_PLACES)) atomic_inc((volatile global uint *)counts + slot);
        else word &= ~(1u << bit);
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lid == 0 && word != bitmap[w]) bitmap[w] = word;
  }
}
