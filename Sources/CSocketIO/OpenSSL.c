#include "OpenSSL.h"

#include <dlfcn.h>
#include <string.h>

// Constants of openssl/bio.h.
enum { flush_command = 11, write_flag = 2, read_flag = 1, retry_flag = 8, source_and_sink_type = 0x0400 };

// The streams call these directly. There is one OpenSSL in a process that this package loads, so they never differ.
static struct csocketio_openssl loaded;

static int read_records(void *stream, char *buffer, size_t size, size_t *count) {
    struct csocketio_records *records = loaded.BIO_get_data(stream);
    loaded.BIO_clear_flags(stream, read_flag | write_flag | retry_flag);
    if (records->input_count == 0) {
        loaded.BIO_set_flags(stream, read_flag | retry_flag);
        *count = 0;
        return 0;
    }
    *count = size < records->input_count ? size : records->input_count;
    memcpy(buffer, records->input, *count);
    records->input += *count;
    records->input_count -= *count;
    return 1;
}

static int write_records(void *stream, const char *bytes, size_t size, size_t *count) {
    struct csocketio_records *records = loaded.BIO_get_data(stream);
    size_t room = records->output_capacity - records->output_count;
    loaded.BIO_clear_flags(stream, read_flag | write_flag | retry_flag);
    if (room == 0) {
        loaded.BIO_set_flags(stream, write_flag | retry_flag);
        *count = 0;
        return 0;
    }
    *count = size < room ? size : room;
    memcpy(records->output + records->output_count, bytes, *count);
    records->output_count += *count;
    return 1;
}

static long control_records(void *stream, int command, long number, void *pointer) {
    (void)stream, (void)number, (void)pointer;
    return command == flush_command;
}

const char *csocketio_load_openssl(void *library, struct csocketio_openssl *functions) {
    struct csocketio_openssl found;
#define LOAD(result, name, parameters) \
    if (!(found.name = (result (*) parameters)dlsym(library, #name))) return #name;
    CSOCKETIO_OPENSSL_FUNCTIONS(LOAD)
#undef LOAD
    void *method = found.BIO_meth_new(found.BIO_get_new_index() | source_and_sink_type, "records");
    if (!method) return "BIO_meth_new";
    found.BIO_meth_set_read_ex(method, read_records);
    found.BIO_meth_set_write_ex(method, write_records);
    found.BIO_meth_set_ctrl(method, control_records);
    found.record_method = method;
    loaded = found;
    *functions = found;
    return NULL;
}

void *csocketio_new_record_stream(const struct csocketio_openssl *functions, struct csocketio_records *records) {
    void *stream = functions->BIO_new(functions->record_method);
    if (!stream) return NULL;
    functions->BIO_set_data(stream, records);
    functions->BIO_set_init(stream, 1);
    return stream;
}
