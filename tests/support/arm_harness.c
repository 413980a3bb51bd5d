/* Runs cases of kernels that were compiled for AArch64: arm_harness CASES RESULTS.

   CASES is int64 numbers and bytes filled up to eight. First the number of cases; for each its buffers (size, whether it is
   written, the bytes), then its steps (which kernel, how many arguments, and for each argument a buffer's number, or -1, and
   what is added to the buffer's address). Each case runs twice, its buffers close behind an inaccessible page and close before
   one, through the runner that the library calls kernels with, under a floating-point state that is not the default.
   RESULTS: for each run its status and the buffers that are written. Linked with kernels.c, which lists the kernels. */

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int64_t (*Kernel)(const int64_t *arguments);
extern const Kernel KERNELS[];
extern int64_t runner(const int64_t *steps, int64_t count);

static FILE *cases, *results;
static int64_t page;
static char where[64];

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", where, what);
    exit(1);
}

static void crashed(int number) {
    char text[128];
    int length = snprintf(text, sizeof text, "%s: signal %d\n", where, number);
    _exit(write(2, text, length) == length ? 1 : 2);
}

static int64_t number(void) {
    int64_t value;
    if (fread(&value, 8, 1, cases) != 1) fail("the cases end too early");
    return value;
}

typedef struct {
    int64_t size, written;
    char *bytes, *pages, *address;
} Buffer;

static int64_t whole(int64_t size) { return (size + page - 1) / page * page; }

static void place(Buffer *b, int at_end) {
    int64_t room = whole(b->size);
    b->pages = mmap(NULL, room + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->pages == MAP_FAILED) fail("mmap");
    b->address = b->pages + page + (at_end ? room - b->size : 0);
    memcpy(b->address, b->bytes, b->size);
    if (mprotect(b->pages, page, PROT_NONE) || mprotect(b->pages + page + room, page, PROT_NONE)) fail("mprotect");
    if (!b->written && mprotect(b->pages + page, room, PROT_READ)) fail("mprotect");
}

static uint64_t state(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
}

static void set_state(uint64_t value) { __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory"); }

int main(int count, char **names) {
    const uint64_t odd = 1 << 24 | 2 << 22; /* numbers below the normal ones are flushed; rounded down */
    if (count != 3 || !(cases = fopen(names[1], "rb")) || !(results = fopen(names[2], "wb"))) return 2;
    page = sysconf(_SC_PAGESIZE);
    signal(SIGSEGV, crashed);
    signal(SIGBUS, crashed);
    signal(SIGILL, crashed);
    int64_t total = number();
    for (int64_t at = 0; at < total; at++) {
        int64_t n_buffers = number();
        Buffer *buffers = calloc(n_buffers, sizeof *buffers);
        for (Buffer *b = buffers; b < buffers + n_buffers; b++) {
            b->size = number();
            b->written = number();
            b->bytes = malloc(b->size + 8);
            int64_t padded = (b->size + 7) / 8 * 8;
            if (padded && fread(b->bytes, padded, 1, cases) != 1) fail("the cases end too early");
        }
        int64_t n_steps = number(), n_numbers = number();
        int64_t *numbers = calloc(n_numbers, 8), *steps = calloc(2 * n_steps, 8), *arguments = calloc(n_numbers, 8);
        if (n_numbers && fread(numbers, 8 * n_numbers, 1, cases) != 1) fail("the cases end too early");
        for (int at_end = 0; at_end < 2; at_end++) {
            snprintf(where, sizeof where, "case %d, %s", (int)at, at_end ? "before a page" : "behind a page");
            for (Buffer *b = buffers; b < buffers + n_buffers; b++) place(b, at_end);
            const int64_t *next = numbers;
            int64_t *free_one = arguments;
            for (int64_t i = 0; i < n_steps; i++) {
                steps[2 * i] = (int64_t)KERNELS[*next++];
                steps[2 * i + 1] = (int64_t)free_one;
                for (int64_t n = *next++; n; n--, next += 2)
                    *free_one++ = next[1] + (next[0] < 0 ? 0 : (int64_t)buffers[next[0]].address);
            }
            set_state(odd);
            int64_t status = runner(steps, n_steps);
            uint64_t after = state();
            set_state(0);
            if (after != odd) fail("the floating-point state was not restored");
            fwrite(&status, 8, 1, results);
            for (Buffer *b = buffers; b < buffers + n_buffers; b++) {
                if (b->written) fwrite(b->address, b->size, 1, results);
                munmap(b->pages, whole(b->size) + 2 * page);
            }
        }
        for (Buffer *b = buffers; b < buffers + n_buffers; b++) free(b->bytes);
        free(buffers), free(numbers), free(steps), free(arguments);
    }
    return fclose(results) != 0;
}
