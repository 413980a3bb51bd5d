/* The numbers of a contraction: rows, columns, the columns' two inner sizes, then bytes from row to row of A, along the columns'
   three dimensions of B, the channels and positions of the terms, bytes from channel to channel of A and of B, the range of
   columns in each dimension for which all terms count, and for each stream the bytes along rows and the columns' dimensions. */
enum { N_ROWS, N_COLUMNS, N_Y, N_X, N_A_ROW, N_B_Z, N_B_Y, N_B_X, N_CHANNELS, N_POSITIONS, N_A_TERM, N_B_TERM, N_INSIDE,
       N_STREAMS = N_INSIDE + 6 };
enum { P_B, P_A, P_RANGES }; /* an entry of the table of positions: offsets, and the ranges of columns that count */

/* the offset of a term in A */
long a_term(constant long *n, global const long *table, int k) {
#if ONE_POSITION
  return table[P_A] + k * n[N_A_TERM];
#else
  int channels = (int)n[N_CHANNELS], p = k / channels;
  return table[8 * p + P_A] + (k - p * channels) * n[N_A_TERM];
#endif
}

/* the offset of a term in B, beside that of a column; -1 if it does not count for the column */
long b_term(constant long *n, global const long *table, int k, int z, int y, int x, bool *counts) {
#if ONE_POSITION
  global const long *at = table;
  int channel = k;
#else
  int channels = (int)n[N_CHANNELS], p = k / channels, channel = k - p * channels;
  global const long *at = table + 8 * p;
#endif
#if PADDED
  *counts = z >= at[2] && z < at[3] && y >= at[4] && y < at[5] && x >= at[6] && x < at[7];
#else
  *counts = true;
#endif
  return at[P_B] + channel * n[N_B_TERM];
}

void mark(global uint *bitmap, long number) { atomic_or((volatile global uint *)bitmap + (number >> 5), 1u << (uint)(number & 31)); }

/* A work item's elements of the tiles of terms k0 .. k0 + DEPTH. Nothing depends on a branch or is converted here, so that all
   of them are on their way while the tiles before are multiplied; PUT writes them to local memory.
   other: memory that is read instead of elements that do not count. */
#define FETCH(HEIGHT, k0, other) \
  for (int i = 0; i < HEIGHT * DEPTH / THREADS; ++i) { \
    int e = (int)lid + i * THREADS, k = min((k0) + (A_BY_TERM ? e % DEPTH : e / HEIGHT), terms - 1); \
    int r = min(r0 + (A_BY_TERM ? e / DEPTH : e % HEIGHT), rows - 1); \
    next_a[i] = *(global const A_TYPE *)(a + (r * n[N_A_ROW] + a_term(n, table, k))); \
  } \
  for (int i = 0; i < COLUMNS * DEPTH / THREADS; ++i) { \
    int e = (int)lid + i * THREADS, k = min((k0) + (B_BY_TERM ? e % DEPTH : e / COLUMNS), terms - 1); \
    int c = B_BY_TERM ? e / DEPTH : e % COLUMNS; \
    bool counts; \
    long at = b_term(n, table, k, place[c][0], place[c][1], place[c][2], &counts); \
    next_b[i] = *(global const B_TYPE *)(counts ? b + (column[c] + at) : (global const uchar *)other); \
    inside = counts ? inside | 1u << i : inside & ~(1u << i); \
  }
