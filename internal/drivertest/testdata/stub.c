/* A CUDA driver without a GPU, for tests: what package driver calls of libcuda. Device memory is memory of the host. Work on a
 * stream is kept until somebody waits for it, which is as late as the real driver may do it, and then done in order: copies copy,
 * kernels are only written into the log. Handles, contexts and ranges of memory are checked as the real driver does or more
 * strictly.
 *
 * Defaults are macros that the compiler's command line may set; a function is left out by giving it another name there
 * (-DcuStreamEndCapture=left_out). stub_set, stub_fail, stub_get and stub_log are for the tests. */
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef STUB_VERSION
#define STUB_VERSION 12080
#endif
#ifndef STUB_DEVICES
#define STUB_DEVICES 1
#endif
#ifndef STUB_MAJOR
#define STUB_MAJOR 9
#endif
#ifndef STUB_MINOR
#define STUB_MINOR 0
#endif
#ifndef STUB_INIT
#define STUB_INIT 0 /* what cuInit returns */
#endif

enum { DEVICES = 4, ALIGNMENT = 512 };

typedef uint64_t devptr;

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
};

enum kind { CONTEXT, MODULE, FUNCTION, MEMORY, HOST, STREAM, EVENT, GRAPH, EXEC, KINDS };

enum work { COPY, SET, RUN, RECORD, WAIT, GRAPH_RUN };

struct object;

struct op {
    struct op *next;
    enum work work;
    devptr to, from; /* of copies */
    int to_device, from_device;
    size_t bytes;
    int value;
    struct object *object; /* event, function or graph */
    long serial;
    char *text; /* of a launch */
};

struct queue {
    struct op *first, **end;
};

struct object {
    struct object *next;
    enum kind kind;
    struct object *context; /* that it belongs to */
    long id;                /* counts from 1 in each kind */

    int device, references, failed;                /* context */
    struct object *standard;                       /* context: its default stream */
    char *name;                                    /* function; module: its text */
    int attributes[16];                            /* function */
    char *base;                                    /* memory, host */
    size_t size;                                   /* memory, host */
    struct queue queue;                            /* stream; graph and exec: the recorded work */
    int capturing, invalid;                        /* stream */
    struct queue captured;                         /* stream */
    int timing, recorded, in_capture;              /* event */
    long serial, done;                             /* event: of the last record, and of the last that happened */
    double when;                                   /* event: ms */
    struct object *stream;                         /* event: where it was recorded */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects, *primary[DEVICES];
static long ids[KINDS], serials;
static double milliseconds;
static int initialized, devices = STUB_DEVICES, version = STUB_VERSION, forget, run_fails, drop_launches;
static size_t memory = (size_t)4 << 30, allocated;
static char fail_call[64];
static int fail_code, fail_after;
static char *log_text;
static size_t log_length;
static __thread struct object *current;

static void say(const char *format, ...) {
    char line[10000];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    log_text = realloc(log_text, log_length + n + 2);
    memcpy(log_text + log_length, line, n);
    log_length += n;
    log_text[log_length++] = '\n';
    log_text[log_length] = 0;
}

static struct object *new_object(enum kind kind) {
    struct object *o = calloc(1, sizeof *o);
    o->kind = kind;
    o->context = kind == CONTEXT ? o : current;
    o->id = ++ids[kind];
    o->queue.end = &o->queue.first;
    o->captured.end = &o->captured.first;
    o->next = objects;
    objects = o;
    return o;
}

static void empty(struct queue *q) {
    while (q->first) {
        struct op *op = q->first;
        q->first = op->next;
        free(op->text);
        free(op);
    }
    q->end = &q->first;
}

static void delete_object(struct object *o) {
    for (struct object **p = &objects; *p; p = &(*p)->next)
        if (*p == o) {
            *p = o->next;
            break;
        }
    empty(&o->queue);
    empty(&o->captured);
    if (o->kind == MEMORY) {
        allocated -= o->size;
        free(o->base);
    }
    if (o->kind == HOST)
        free(o->base);
    free(o->name);
    free(o);
}

/* object is h where that is a living handle of a kind in the current context, else NULL. */
static struct object *object(void *h, enum kind kind) {
    for (struct object *o = objects; o; o = o->next)
        if (o == h && o->kind == kind && (kind == CONTEXT || o->context == current))
            return o;
    return NULL;
}

static struct object *stream_of(void *h) { return h ? object(h, STREAM) : current->standard; }

static struct object *memory_at(devptr at, size_t bytes) {
    for (struct object *o = objects; o; o = o->next)
        if (o->kind == MEMORY && o->context == current && at >= (devptr)(uintptr_t)o->base &&
            at - (devptr)(uintptr_t)o->base <= o->size && bytes <= o->size - (at - (devptr)(uintptr_t)o->base))
            return o;
    return NULL;
}

/* enter begins every call: it takes the lock, and says what the call fails with, 0 if it may go on. */
static int enter(const char *name, int in_context) {
    pthread_mutex_lock(&mutex);
    if (fail_code && strcmp(name, fail_call) == 0 && fail_after-- == 0) {
        int code = fail_code;
        fail_code = 0;
        return code;
    }
    if (!initialized)
        return 3;
    if (in_context) {
        if (!current || !object(current, CONTEXT))
            return 201;
        if (current->failed)
            return current->failed;
    }
    return 0;
}

static int leave(int code) {
    if (forget)
        current = NULL;
    pthread_mutex_unlock(&mutex);
    return code;
}

#define ENTER(name)                 \
    do {                            \
        int code_ = enter(name, 1); \
        if (code_)                  \
            return leave(code_);    \
    } while (0)

/* --- work ----------------------------------------------------------------------------------------------------------------- */

static void step(struct object *stream);

static int fail(int code) { return current->failed = code; }

static void do_op(const struct op *op) {
    milliseconds += 1;
    if (current->failed)
        return;
    switch (op->work) {
    case COPY:
        if ((op->to_device && !memory_at(op->to, op->bytes)) || (op->from_device && !memory_at(op->from, op->bytes)))
            fail(700);
        else
            memmove((void *)(uintptr_t)op->to, (void *)(uintptr_t)op->from, op->bytes);
        return;
    case SET:
        if (memory_at(op->to, op->bytes))
            memset((void *)(uintptr_t)op->to, op->value, op->bytes);
        else
            fail(700);
        return;
    case RUN:
        say("run %s", op->text);
        if (run_fails) {
            fail(run_fails);
            run_fails = 0;
        }
        return;
    case RECORD:
        if (object(op->object, EVENT)) {
            op->object->done = op->serial;
            op->object->when = milliseconds;
        }
        return;
    case WAIT:
        while (object(op->object, EVENT) && op->object->done < op->serial && op->object->stream->queue.first)
            step(op->object->stream);
        return;
    case GRAPH_RUN:
        for (const struct op *o = op->object->queue.first; o; o = o->next)
            do_op(o);
        return;
    }
}

static void step(struct object *stream) {
    struct op *op = stream->queue.first;
    stream->queue.first = op->next;
    if (!stream->queue.first)
        stream->queue.end = &stream->queue.first;
    do_op(op);
    free(op->text);
    free(op);
}

static void drain(struct object *stream) {
    while (stream->queue.first)
        step(stream);
}

static void drain_all(void) {
    for (struct object *o = objects; o; o = o->next)
        if (o->kind == STREAM && o->context == current)
            drain(o);
}

static int put(struct object *stream, struct op op) {
    struct queue *q = stream->capturing ? &stream->captured : &stream->queue;
    struct op *copy = malloc(sizeof op);
    *copy = op;
    copy->next = NULL;
    *q->end = copy;
    q->end = &copy->next;
    return 0;
}

/* --- for the tests -------------------------------------------------------------------------------------------------------- */

void stub_set(const char *name, long value) {
    pthread_mutex_lock(&mutex);
    if (strcmp(name, "memory") == 0)
        memory = value;
    else if (strcmp(name, "forget") == 0)
        forget = value; /* every call leaves its thread without a context */
    else if (strcmp(name, "run_fails") == 0)
        run_fails = value; /* the next kernel that runs */
    else if (strcmp(name, "drop_launches") == 0)
        drop_launches = value; /* kernels are neither logged nor run */
    else
        abort();
    pthread_mutex_unlock(&mutex);
}

/* stub_fail makes a later call of a function fail: the one after so many. */
void stub_fail(const char *call, int code, int after) {
    pthread_mutex_lock(&mutex);
    snprintf(fail_call, sizeof fail_call, "%s", call);
    fail_code = code;
    fail_after = after;
    pthread_mutex_unlock(&mutex);
}

/* stub_get counts what lives; functions live as long as their module and default streams as long as their context, and do not
 * count. */
long stub_get(const char *name) {
    static const char *const names[KINDS] = {"contexts", "modules", "", "buffers", "host", "streams", "events", "graphs", "execs"};
    long n = 0;
    pthread_mutex_lock(&mutex);
    for (struct object *o = objects; o; o = o->next)
        if (strcmp(name, names[o->kind]) == 0 && !(o->kind == STREAM && o == o->context->standard))
            n++;
    if (strcmp(name, "references") == 0 && primary[0])
        n = primary[0]->references;
    pthread_mutex_unlock(&mutex);
    return n;
}

/* stub_log copies the log, as far as there is room, and returns its length. */
long stub_log(char *to, long size) {
    pthread_mutex_lock(&mutex);
    long n = log_length;
    if (to && size > n && log_text)
        memcpy(to, log_text, n + 1);
    pthread_mutex_unlock(&mutex);
    return n;
}

/* --- the driver ----------------------------------------------------------------------------------------------------------- */

static int error_index(int code) {
    for (int i = 0; i < (int)(sizeof errors / sizeof *errors); i++)
        if (errors[i].code == code)
            return i;
    return -1;
}

int cuGetErrorName(int code, const char **p) {
    int i = error_index(code);
    *p = i < 0 ? NULL : errors[i].name;
    return i < 0;
}

int cuGetErrorString(int code, const char **p) {
    int i = error_index(code);
    *p = i < 0 ? NULL : errors[i].text;
    return i < 0;
}

int cuDriverGetVersion(int *p) {
    *p = version;
    return 0;
}

int cuInit(unsigned flags) {
    int code = STUB_INIT ? STUB_INIT : flags ? 1 : devices == 0 ? 100 : 0;
    pthread_mutex_lock(&mutex);
    initialized = code == 0;
    pthread_mutex_unlock(&mutex);
    return code;
}

int cuDeviceGetCount(int *n) {
    int code = enter("cuDeviceGetCount", 0);
    *n = devices;
    return leave(code);
}

int cuDeviceGet(int *device, int ordinal) {
    int code = enter("cuDeviceGet", 0);
    if (!code && (ordinal < 0 || ordinal >= devices))
        code = 101;
    if (!code)
        *device = ordinal;
    return leave(code);
}

int cuDeviceGetName(char *name, int size, int device) {
    int code = enter("cuDeviceGetName", 0);
    if (!code)
        snprintf(name, size, "Stub %d", device);
    return leave(code);
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int code = enter("cuDeviceGetAttribute", 0);
    if (!code && device >= devices)
        code = 101;
    if (!code)
        switch (attribute) {
        case 16: *value = 132; break;
        case 75: *value = STUB_MAJOR; break;
        case 76: *value = STUB_MINOR; break;
        case 97: *value = 232448; break;
        default: code = 1;
        }
    return leave(code);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    int code = enter("cuDeviceTotalMem", 0);
    if (!code)
        *bytes = memory;
    (void)device;
    return leave(code);
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    int code = enter("cuDevicePrimaryCtxRetain", 0);
    if (!code && (device < 0 || device >= devices || device >= DEVICES))
        code = 101;
    if (!code) {
        if (!primary[device]) {
            struct object *before = current;
            current = primary[device] = new_object(CONTEXT);
            current->device = device;
            current->standard = new_object(STREAM);
            current = before;
        }
        primary[device]->references++;
        *context = primary[device];
    }
    return leave(code);
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    int code = enter("cuDevicePrimaryCtxRelease", 0);
    if (!code && (device < 0 || device >= DEVICES || !primary[device]))
        code = 201;
    if (!code && --primary[device]->references == 0) {
        struct object *c = primary[device];
        primary[device] = NULL;
        for (;;) {
            struct object *o = objects;
            while (o && (o->context != c || o == c))
                o = o->next;
            if (!o)
                break;
            delete_object(o);
        }
        delete_object(c);
    }
    return leave(code);
}

int cuCtxSetCurrent(void *context) {
    int code = enter("cuCtxSetCurrent", 0);
    if (!code && context && !object(context, CONTEXT))
        code = 201;
    if (!code)
        current = context;
    pthread_mutex_unlock(&mutex);
    return code;
}

int cuCtxSynchronize(void) {
    ENTER("cuCtxSynchronize");
    drain_all();
    return leave(current->failed);
}

int cuMemGetInfo_v2(size_t *unused, size_t *total) {
    ENTER("cuMemGetInfo");
    *unused = memory - allocated;
    *total = memory;
    return leave(0);
}

/* Text with @broken in it does not compile. */
int cuModuleLoadDataEx(void **module, const char *text, unsigned n, const int *options, void **values) {
    ENTER("cuModuleLoadDataEx");
    char *log = NULL;
    size_t size = 0;
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == 5)
            log = values[i];
        else if (options[i] == 6)
            size = (size_t)values[i];
        else
            return leave(1);
    }
    say("cuModuleLoadDataEx bytes %zu", strlen(text));
    const char *broken = strstr(text, "@broken");
    if (broken) {
        int line = 1;
        for (const char *p = text; p < broken; p++)
            line += *p == '\n';
        if (log)
            snprintf(log, size, "ptxas application ptx input, line %d; error   : Unknown symbol\nptxas fatal   : Ptx assembly aborted\n",
                     line);
        return leave(218);
    }
    struct object *m = new_object(MODULE);
    m->name = strdup(text);
    *module = m;
    return leave(0);
}

int cuModuleUnload(void *module) {
    ENTER("cuModuleUnload");
    struct object *m = object(module, MODULE);
    if (!m)
        return leave(400);
    drain_all();
    delete_object(m);
    return leave(0);
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    ENTER("cuModuleGetFunction");
    struct object *m = object(module, MODULE);
    if (!m)
        return leave(400);
    for (const char *p = m->name; (p = strstr(p, ".entry "));) {
        p += strlen(".entry ");
        size_t n = strcspn(p, "( \n");
        if (n == strlen(name) && strncmp(p, name, n) == 0) {
            struct object *f = new_object(FUNCTION);
            f->name = strdup(name);
            f->attributes[0] = 1024; /* threads of a block */
            f->attributes[4] = 40;   /* registers */
            f->attributes[1] = 1024; /* static shared memory */
            f->attributes[8] = (48 << 10) - f->attributes[1];
            *function = f;
            return leave(0);
        }
    }
    return leave(500);
}

int cuFuncGetAttribute(int *value, int attribute, void *function) {
    ENTER("cuFuncGetAttribute");
    struct object *f = object(function, FUNCTION);
    if (!f)
        return leave(400);
    if (attribute < 0 || attribute >= 16)
        return leave(1);
    *value = f->attributes[attribute];
    return leave(0);
}

int cuFuncSetAttribute(void *function, int attribute, int value) {
    ENTER("cuFuncSetAttribute");
    struct object *f = object(function, FUNCTION);
    if (!f)
        return leave(400);
    if (attribute != 8 || value < 0 || value > 232448 - f->attributes[1])
        return leave(1);
    f->attributes[attribute] = value;
    say("cuFuncSetAttribute %d %d", attribute, value);
    return leave(0);
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *function, int threads, size_t shared) {
    ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    if (!object(function, FUNCTION))
        return leave(400);
    if (threads <= 0)
        return leave(1);
    *n = 2048 / threads;
    if (shared && *n > (int)(232448 / shared))
        *n = 232448 / shared;
    return leave(0);
}

int cuMemAlloc_v2(devptr *p, size_t bytes) {
    ENTER("cuMemAlloc");
    if (bytes == 0)
        return leave(1);
    if (bytes > memory - allocated)
        return leave(2);
    struct object *m = new_object(MEMORY);
    m->size = bytes;
    m->base = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    memset(m->base, 0xCD, bytes);
    allocated += bytes;
    *p = (devptr)(uintptr_t)m->base;
    return leave(0);
}

int cuMemFree_v2(devptr p) {
    ENTER("cuMemFree");
    struct object *m = memory_at(p, 1);
    if (!m || (devptr)(uintptr_t)m->base != p)
        return leave(1);
    drain_all();
    delete_object(m);
    return leave(0);
}

int cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
    ENTER("cuMemHostAlloc");
    say("cuMemHostAlloc bytes %zu flags %u", bytes, flags);
    if (bytes == 0)
        return leave(1);
    struct object *m = new_object(HOST);
    m->size = bytes;
    m->base = malloc(bytes);
    memset(m->base, 0xCD, bytes);
    *p = m->base;
    return leave(0);
}

int cuMemFreeHost(void *p) {
    ENTER("cuMemFreeHost");
    for (struct object *o = objects; o; o = o->next)
        if (o->kind == HOST && o->base == p) {
            drain_all();
            delete_object(o);
            return leave(0);
        }
    return leave(1);
}

static int copy(devptr to, int to_device, devptr from, int from_device, size_t bytes, void *stream) {
    struct object *s = stream_of(stream);
    if (!s)
        return 400;
    if ((to_device && !memory_at(to, bytes)) || (from_device && !memory_at(from, bytes)))
        return 1;
    return put(s, (struct op){.work = COPY, .to = to, .to_device = to_device, .from = from, .from_device = from_device, .bytes = bytes});
}

int cuMemcpyHtoDAsync_v2(devptr to, const void *from, size_t bytes, void *stream) {
    ENTER("cuMemcpyHtoDAsync");
    return leave(copy(to, 1, (devptr)(uintptr_t)from, 0, bytes, stream));
}

int cuMemcpyDtoHAsync_v2(void *to, devptr from, size_t bytes, void *stream) {
    ENTER("cuMemcpyDtoHAsync");
    return leave(copy((devptr)(uintptr_t)to, 0, from, 1, bytes, stream));
}

int cuMemcpyDtoDAsync_v2(devptr to, devptr from, size_t bytes, void *stream) {
    ENTER("cuMemcpyDtoDAsync");
    return leave(copy(to, 1, from, 1, bytes, stream));
}

int cuMemsetD8Async(devptr to, unsigned char value, size_t bytes, void *stream) {
    ENTER("cuMemsetD8Async");
    struct object *s = stream_of(stream);
    if (!s)
        return leave(400);
    if (!memory_at(to, bytes))
        return leave(1);
    return leave(put(s, (struct op){.work = SET, .to = to, .bytes = bytes, .value = value}));
}

int cuStreamCreate(void **stream, unsigned flags) {
    ENTER("cuStreamCreate");
    *stream = new_object(STREAM);
    say("cuStreamCreate flags %u", flags);
    return leave(0);
}

int cuStreamDestroy_v2(void *stream) {
    ENTER("cuStreamDestroy");
    struct object *s = object(stream, STREAM);
    if (!s || s == current->standard)
        return leave(400);
    drain(s);
    for (struct object *o = objects; o; o = o->next)
        if (o->kind == EVENT && o->stream == s)
            o->stream = NULL;
    delete_object(s);
    return leave(0);
}

int cuStreamSynchronize(void *stream) {
    ENTER("cuStreamSynchronize");
    struct object *s = stream_of(stream);
    if (!s)
        return leave(400);
    if (s->capturing) {
        s->invalid = 1;
        return leave(900);
    }
    drain(s);
    return leave(current->failed);
}

int cuStreamIsCapturing(void *stream, int *status) {
    ENTER("cuStreamIsCapturing");
    struct object *s = stream_of(stream);
    if (!s)
        return leave(400);
    *status = !s->capturing ? 0 : s->invalid ? 2 : 1;
    return leave(0);
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    ENTER("cuStreamWaitEvent");
    struct object *s = stream_of(stream), *e = object(event, EVENT);
    if (!s || !e)
        return leave(400);
    if (flags)
        return leave(1);
    if (s->capturing != (e->recorded && e->in_capture)) {
        s->invalid = s->capturing;
        return leave(905);
    }
    if (!e->recorded || e->done == e->serial || s->capturing)
        return leave(0);
    return leave(put(s, (struct op){.work = WAIT, .object = e, .serial = e->serial}));
}

int cuEventCreate(void **event, unsigned flags) {
    ENTER("cuEventCreate");
    struct object *e = new_object(EVENT);
    e->timing = !(flags & 2);
    *event = e;
    return leave(0);
}

int cuEventDestroy_v2(void *event) {
    ENTER("cuEventDestroy");
    struct object *e = object(event, EVENT);
    if (!e)
        return leave(400);
    delete_object(e);
    return leave(0);
}

int cuEventRecord(void *event, void *stream) {
    ENTER("cuEventRecord");
    struct object *s = stream_of(stream), *e = object(event, EVENT);
    if (!s || !e)
        return leave(400);
    e->recorded = 1;
    e->in_capture = s->capturing;
    if (s->capturing)
        return leave(0);
    e->serial = ++serials;
    e->stream = s;
    return leave(put(s, (struct op){.work = RECORD, .object = e, .serial = e->serial}));
}

int cuEventSynchronize(void *event) {
    ENTER("cuEventSynchronize");
    struct object *e = object(event, EVENT);
    if (!e)
        return leave(400);
    while (e->done < e->serial && e->stream && e->stream->queue.first)
        step(e->stream);
    return leave(current->failed);
}

int cuEventElapsedTime(float *ms, void *from, void *to) {
    ENTER("cuEventElapsedTime");
    struct object *a = object(from, EVENT), *b = object(to, EVENT);
    if (!a || !b || !a->timing || !b->timing || !a->recorded || !b->recorded)
        return leave(400);
    if (a->done < a->serial || b->done < b->serial)
        return leave(600);
    *ms = (float)(b->when - a->when);
    return leave(0);
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **parameters, void **extra) {
    ENTER("cuLaunchKernel");
    struct object *s = stream_of(stream), *f = object(function, FUNCTION);
    if (!s || !f)
        return leave(400);
    if (parameters || !extra || !gx || !gy || !gz || gx > INT32_MAX || gy > 65535 || gz > 65535 || !bx || !by || !bz || bx > 1024 ||
        by > 1024 || bz > 64 || bx * by * bz > 1024 || shared > (unsigned)f->attributes[8])
        return leave(1);
    const unsigned char *buffer = NULL;
    size_t bytes = 0;
    for (int i = 0; extra[i]; i += 2)
        switch ((uintptr_t)extra[i]) {
        case 1: buffer = extra[i + 1]; break;
        case 2: bytes = *(size_t *)extra[i + 1]; break;
        default: return leave(1);
        }
    if (!buffer || bytes > 4096)
        return leave(1);
    if (drop_launches)
        return leave(0);
    char line[9000];
    int n = snprintf(line, sizeof line, "%s grid %u %u %u block %u %u %u shared %u stream %ld parameters ", f->name, gx, gy, gz, bx, by,
                     bz, shared, s->id);
    for (size_t i = 0; i < bytes; i++)
        n += snprintf(line + n, sizeof line - n, "%02x", buffer[i]);
    say("%s %s", s->capturing ? "capture" : "launch", line);
    return leave(put(s, (struct op){.work = RUN, .object = f, .text = strdup(line)}));
}

int cuStreamBeginCapture_v2(void *stream, int mode) {
    ENTER("cuStreamBeginCapture");
    struct object *s = object(stream, STREAM);
    if (!s || s == current->standard)
        return leave(400);
    if (s->capturing)
        return leave(1);
    say("cuStreamBeginCapture stream %ld mode %d", s->id, mode);
    s->capturing = 1;
    return leave(0);
}

int cuStreamEndCapture(void *stream, void **graph) {
    ENTER("cuStreamEndCapture");
    struct object *s = object(stream, STREAM);
    if (!s)
        return leave(400);
    if (!s->capturing)
        return leave(1);
    int invalid = s->invalid;
    s->capturing = s->invalid = 0;
    *graph = NULL;
    if (invalid) {
        empty(&s->captured);
        return leave(901);
    }
    struct object *g = new_object(GRAPH);
    if (s->captured.first)
        g->queue = s->captured;
    s->captured.first = NULL;
    s->captured.end = &s->captured.first;
    *graph = g;
    return leave(0);
}

static int instantiate(const char *how, void **exec, void *graph) {
    struct object *g = object(graph, GRAPH);
    if (!g)
        return 400;
    struct object *e = new_object(EXEC);
    int n = 0;
    for (struct op *o = g->queue.first; o; o = o->next, n++) {
        struct op *node = malloc(sizeof *node);
        *node = *o;
        node->next = NULL;
        node->text = o->text ? strdup(o->text) : NULL;
        *e->queue.end = node;
        e->queue.end = &node->next;
    }
    say("%s nodes %d", how, n);
    *exec = e;
    return 0;
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    ENTER("cuGraphInstantiateWithFlags");
    return leave(flags ? 1 : instantiate("cuGraphInstantiateWithFlags", exec, graph));
}

int cuGraphInstantiate_v2(void **exec, void *graph, void **node, char *log, size_t size) {
    int code = enter("cuGraphInstantiate", 1);
    if (code) {
        snprintf(log, size, "a node is not supported");
        *node = NULL;
        return leave(code);
    }
    return leave(instantiate("cuGraphInstantiate", exec, graph));
}

int cuGraphLaunch(void *exec, void *stream) {
    ENTER("cuGraphLaunch");
    struct object *e = object(exec, EXEC), *s = stream_of(stream);
    if (!e || !s)
        return leave(400);
    say("cuGraphLaunch stream %ld", s->id);
    return leave(put(s, (struct op){.work = GRAPH_RUN, .object = e}));
}

int cuGraphDestroy(void *graph) {
    ENTER("cuGraphDestroy");
    struct object *g = object(graph, GRAPH);
    if (!g)
        return leave(400);
    delete_object(g);
    return leave(0);
}

int cuGraphExecDestroy(void *exec) {
    ENTER("cuGraphExecDestroy");
    struct object *e = object(exec, EXEC);
    if (!e)
        return leave(400);
    drain_all();
    delete_object(e);
    return leave(0);
}
