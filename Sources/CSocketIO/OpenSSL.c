#include "OpenSSL.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/time.h>

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

static int read_datagram(void *stream, char *buffer, size_t size, size_t *count) {
    struct csocketio_datagrams *datagrams = loaded.BIO_get_data(stream);
    loaded.BIO_clear_flags(stream, read_flag | write_flag | retry_flag);
    if (datagrams->input_count == 0) {
        loaded.BIO_set_flags(stream, read_flag | retry_flag);
        *count = 0;
        return 0;
    }
    // As with a socket, the rest of a datagram that is too long is lost.
    *count = size < datagrams->input_count ? size : datagrams->input_count;
    memcpy(buffer, datagrams->input, *count);
    datagrams->input_count = 0;
    return 1;
}

static int write_datagram(void *stream, const char *bytes, size_t size, size_t *count) {
    struct csocketio_datagrams *datagrams = loaded.BIO_get_data(stream);
    uint32_t length = (uint32_t)size;
    loaded.BIO_clear_flags(stream, read_flag | write_flag | retry_flag);
    *count = size;
    // Without room the datagram is lost, as on the network.
    if (size > UINT16_MAX || datagrams->output_capacity - datagrams->output_count < sizeof length + size) return 1;
    memcpy(datagrams->output + datagrams->output_count, &length, sizeof length);
    memcpy(datagrams->output + datagrams->output_count + sizeof length, bytes, size);
    datagrams->output_count += sizeof length + size;
    return 1;
}

// The cookie of a ClientHello was checked before OpenSSL gets it, and OpenSSL makes none.
static int verify_cookie(void *connection, const unsigned char *cookie, unsigned int count) {
    (void)connection, (void)cookie, (void)count;
    return 1;
}

static int make_no_cookie(void *connection, unsigned char *cookie, unsigned int *count) {
    (void)connection, (void)cookie, (void)count;
    return 0;
}

// The first repetition of a flight comes after 200 ms, and each further one after twice the time, up to 2 s.
static unsigned int next_timeout(void *connection, unsigned int microseconds) {
    (void)connection;
    if (microseconds == 0) return 200000;
    return microseconds < 1000000 ? microseconds * 2 : 2000000;
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
    // No cleanup at exit (0x80000), because other threads can still use OpenSSL then. No configuration file (0x80), because
    // the environment names it (OPENSSL_CONF), and it can load code and weaken every context. If the program has already
    // loaded one, the library context below is not affected.
    if (found.OPENSSL_init_ssl(0x80000 | 0x80, NULL) != 1) return "OPENSSL_init_ssl";
    found.library_context = found.OSSL_LIB_CTX_new();
    if (!found.library_context) return "OSSL_LIB_CTX_new";
    void *method = found.BIO_meth_new(found.BIO_get_new_index() | source_and_sink_type, "records");
    if (!method) return "BIO_meth_new";
    found.BIO_meth_set_read_ex(method, read_records);
    found.BIO_meth_set_write_ex(method, write_records);
    found.BIO_meth_set_ctrl(method, control_records);
    found.record_method = method;
    method = found.BIO_meth_new(found.BIO_get_new_index() | source_and_sink_type, "datagrams");
    if (!method) return "BIO_meth_new";
    found.BIO_meth_set_read_ex(method, read_datagram);
    found.BIO_meth_set_write_ex(method, write_datagram);
    found.BIO_meth_set_ctrl(method, control_records);
    found.datagram_method = method;
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

void *csocketio_new_datagram_stream(const struct csocketio_openssl *functions, struct csocketio_datagrams *datagrams) {
    void *stream = functions->BIO_new(functions->datagram_method);
    if (!stream) return NULL;
    functions->BIO_set_data(stream, datagrams);
    functions->BIO_set_init(stream, 1);
    return stream;
}

void csocketio_set_up_datagrams(const struct csocketio_openssl *functions, void *context) {
    functions->SSL_CTX_set_cookie_verify_cb(context, verify_cookie);
    functions->SSL_CTX_set_cookie_generate_cb(context, make_no_cookie);
}

void csocketio_set_datagram_timer(const struct csocketio_openssl *functions, void *connection) {
    functions->DTLS_set_timer_cb(connection, next_timeout);
}

int csocketio_take_first_hello(const struct csocketio_openssl *functions, void *connection) {
    // OpenSSL writes the address of the client there, which the stream does not know.
    void *address = functions->BIO_ADDR_new();
    if (!address) return 0;
    int result = functions->DTLSv1_listen(connection, address);
    functions->BIO_ADDR_free(address);
    return result == 1;
}

int64_t csocketio_datagram_timeout(const struct csocketio_openssl *functions, void *connection) {
    struct timeval left;
    // DTLS_CTRL_GET_TIMEOUT
    if (functions->SSL_ctrl(connection, 73, 0, &left) != 1) return -1;
    return (int64_t)left.tv_sec * 1000000000 + (int64_t)left.tv_usec * 1000;
}
