//! main
/* The program's inputs and outputs as .npy files of format 1.0 or later, little-endian, in C order. */
static int fail(const char *file, const char *what) {
    fprintf(stderr, "%s: %s\n", file, what);
    return 1;
}

/* Bytes of elements of size bytes between the file's order, the lowest first, and that of this machine. */
static void reorder(uint8_t *data, size_t count, size_t size) {
    const uint16_t one = 1;
    if (*(const uint8_t *)&one == 1)
        return;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < size / 2; k++) {
            uint8_t b = data[i * size + k];
            data[i * size + k] = data[i * size + size - 1 - k];
            data[i * size + size - 1 - k] = b;
        }
}

/* Whether the header has key followed by value; spaces do not count. */
static int has(const char *header, const char *key, const char *value) {
    const char *at = strstr(header, key);
    if (!at)
        return 0;
    for (at += strlen(key); *at == ' ' || *at == ':'; at++)
        ;
    for (; *value; at++) {
        if (*at == ' ')
            continue;
        if (*at != *value++)
            return 0;
    }
    return 1;
}

static int read_npy(const char *file, const struct qwb_tensor *t, void *data) {
    uint8_t start[12];
    char header[4096];
    size_t length;
    FILE *f = fopen(file, "rb");
    if (!f)
        return fail(file, "cannot be opened");
    if (fread(start, 1, 10, f) != 10 || memcmp(start, "\x93NUMPY", 6) != 0) {
        fclose(f);
        return fail(file, "not a .npy file");
    }
    length = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1 && fread(start + 10, 1, 2, f) == 2)
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    if (length >= sizeof header || fread(header, 1, length, f) != length) {
        fclose(f);
        return fail(file, "its header cannot be read");
    }
    header[length] = 0;
    if (!has(header, "'descr'", t->descr) || !has(header, "'fortran_order'", "False") || !has(header, "'shape'", t->shape)) {
        fprintf(stderr, "%s: expected %s of shape %s in C order: %s\n", file, t->descr, t->shape, header);
        fclose(f);
        return 1;
    }
    if (fread(data, t->size, t->count, f) != t->count || fgetc(f) != EOF) {
        fclose(f);
        return fail(file, "its length is not that of its shape");
    }
    fclose(f);
    reorder(data, t->count, t->size);
    return 0;
}

static int write_npy(const char *file, const struct qwb_tensor *t, void *data) {
    char header[4096];
    int length, ok;
    FILE *f = fopen(file, "wb");
    if (!f)
        return fail(file, "cannot be created");
    length = snprintf(header, sizeof header, "{'descr': %s, 'fortran_order': False, 'shape': %s, }", t->descr, t->shape);
    while ((length + 11) % 64 != 0)
        header[length++] = ' ';
    header[length++] = '\n';
    reorder(data, t->count, t->size);
    ok = fwrite("\x93NUMPY\x01\x00", 1, 8, f) == 8 && fputc(length & 255, f) != EOF && fputc(length >> 8, f) != EOF &&
         fwrite(header, 1, (size_t)length, f) == (size_t)length && fwrite(data, t->size, t->count, f) == t->count;
    if (fclose(f) != 0 || !ok)
        return fail(file, "cannot be written");
    return 0;
}

int main(int argc, char **argv) {
    void *in[QWB_INPUTS + 1], *out[QWB_OUTPUTS + 1];
    int failed = 0;
    if (argc != 1 + QWB_INPUTS + QWB_OUTPUTS) {
        fprintf(stderr, "usage: %s", argv[0]);
        for (int i = 0; i < QWB_INPUTS; i++)
            fprintf(stderr, " %s.npy", qwb_inputs[i].name);
        for (int i = 0; i < QWB_OUTPUTS; i++)
            fprintf(stderr, " %s.npy", qwb_outputs[i].name);
        fprintf(stderr, "\ninputs are read, outputs written\n");
        return 2;
    }
    for (int i = 0; i < QWB_INPUTS; i++)
        in[i] = malloc(qwb_inputs[i].count * qwb_inputs[i].size + 1);
    for (int i = 0; i < QWB_OUTPUTS; i++)
        out[i] = malloc(qwb_outputs[i].count * qwb_outputs[i].size + 1);
    for (int i = 0; i < QWB_INPUTS; i++)
        failed |= !in[i];
    for (int i = 0; i < QWB_OUTPUTS; i++)
        failed |= !out[i];
    if (failed)
        return fail(argv[0], "out of memory");
    for (int i = 0; i < QWB_INPUTS && !failed; i++)
        failed = read_npy(argv[1 + i], &qwb_inputs[i], in[i]);
    if (!failed)
        qwb_run((const void *const *)in, out);
    for (int i = 0; i < QWB_OUTPUTS && !failed; i++)
        failed = write_npy(argv[1 + QWB_INPUTS + i], &qwb_outputs[i], out[i]);
    for (int i = 0; i < QWB_INPUTS; i++)
        free(in[i]);
    for (int i = 0; i < QWB_OUTPUTS; i++)
        free(out[i]);
    return failed;
}
