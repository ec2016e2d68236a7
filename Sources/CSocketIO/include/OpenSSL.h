// The functions of OpenSSL 3 that this package calls, loaded at run time. So the package builds where no OpenSSL headers
// are installed. All OpenSSL types are opaque here.
#ifndef CSOCKETIO_OPENSSL_H
#define CSOCKETIO_OPENSSL_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wnullability-completeness"
#else
#define _Nonnull
#endif

// Result, name, parameters.
#define CSOCKETIO_OPENSSL_FUNCTIONS(F) \
    F(int, OPENSSL_init_ssl, (uint64_t options, const void *settings)) \
    F(const char *, OpenSSL_version, (int kind)) \
    F(void *, OSSL_LIB_CTX_new, (void)) \
    /* Contexts */ \
    F(const void *, TLS_method, (void)) \
    F(const void *, DTLS_method, (void)) \
    F(void *, SSL_CTX_new_ex, (void *library, const char *properties, const void *method)) \
    F(void, SSL_CTX_free, (void *context)) \
    F(long, SSL_CTX_ctrl, (void *context, int command, long number, void *pointer)) \
    F(uint64_t, SSL_CTX_set_options, (void *context, uint64_t options)) \
    F(uint64_t, SSL_CTX_clear_options, (void *context, uint64_t options)) \
    F(void, SSL_CTX_set_security_level, (void *context, int level)) \
    F(void, SSL_CTX_set_verify, (void *context, int mode, int (*callback)(int, void *))) \
    F(int, SSL_CTX_set_default_verify_paths, (void *context)) \
    F(int, SSL_CTX_load_verify_dir, (void *context, const char *directory)) \
    F(void *, SSL_CTX_get_cert_store, (const void *context)) \
    F(int, SSL_CTX_use_certificate, (void *context, void *certificate)) \
    F(int, SSL_CTX_use_PrivateKey, (void *context, void *key)) \
    F(int, SSL_CTX_check_private_key, (const void *context)) \
    F(int, SSL_CTX_add_client_CA, (void *context, void *certificate)) \
    F(int, SSL_CTX_set_alpn_protos, (void *context, const unsigned char *list, unsigned int count)) \
    F(void, SSL_CTX_set_alpn_select_cb, (void *context, int (*callback)(void *, const unsigned char **, unsigned char *, \
        const unsigned char *, unsigned int, void *), void *argument)) \
    F(void, SSL_CTX_set_info_callback, (void *context, void (*callback)(const void *, int, int))) \
    F(void, SSL_CTX_set_msg_callback, (void *context, void (*callback)(int isSent, int version, int content, \
        const void *bytes, size_t count, void *connection, void *argument))) \
    F(void, SSL_CTX_set_client_cert_cb, (void *context, int (*callback)(void *, void **, void **))) \
    F(void, SSL_CTX_sess_set_new_cb, (void *context, int (*callback)(void *, void *))) \
    F(int, SSL_CTX_set_session_id_context, (void *context, const unsigned char *identifier, unsigned int count)) \
    F(int, SSL_CTX_set_num_tickets, (void *context, size_t count)) \
    F(int, SSL_CTX_set_session_ticket_cb, (void *context, int (*generate)(void *, void *), \
        int (*decrypt)(void *, void *, const unsigned char *, size_t, int, void *), void *argument)) \
    F(int, SSL_CTX_set_cipher_list, (void *context, const char *names)) \
    F(int, SSL_CTX_set_ciphersuites, (void *context, const char *names)) \
    F(void, SSL_CTX_set_cookie_verify_cb, (void *context, int (*callback)(void *, const unsigned char *, unsigned int))) \
    F(void, SSL_CTX_set_cookie_generate_cb, (void *context, int (*callback)(void *, unsigned char *, unsigned int *))) \
    /* Connections */ \
    F(void *, SSL_new, (void *context)) \
    F(void, SSL_free, (void *connection)) \
    F(void, SSL_set_bio, (void *connection, void *input, void *output)) \
    F(void, SSL_set_connect_state, (void *connection)) \
    F(void, SSL_set_accept_state, (void *connection)) \
    F(int, SSL_do_handshake, (void *connection)) \
    F(int, DTLSv1_listen, (void *connection, void *address)) \
    F(void, DTLS_set_timer_cb, (void *connection, unsigned int (*callback)(void *, unsigned int))) \
    F(int, SSL_read_ex, (void *connection, void *buffer, size_t size, size_t *count)) \
    F(int, SSL_write_ex, (void *connection, const void *bytes, size_t size, size_t *count)) \
    F(int, SSL_pending, (const void *connection)) \
    F(int, SSL_free_buffers, (void *connection)) \
    F(int, SSL_shutdown, (void *connection)) \
    F(void, SSL_set_shutdown, (void *connection, int mode)) \
    F(int, SSL_get_error, (const void *connection, int result)) \
    F(long, SSL_ctrl, (void *connection, int command, long number, void *pointer)) \
    F(int, SSL_set_ex_data, (void *connection, int index, void *data)) \
    F(void *, SSL_get_ex_data, (const void *connection, int index)) \
    F(int, SSL_get_ex_data_X509_STORE_CTX_idx, (void)) \
    F(void *, SSL_get0_param, (void *connection)) \
    F(void, X509_VERIFY_PARAM_set_hostflags, (void *parameters, unsigned int flags)) \
    F(int, X509_VERIFY_PARAM_set1_host, (void *parameters, const char *name, size_t count)) \
    F(int, X509_VERIFY_PARAM_set1_ip_asc, (void *parameters, const char *address)) \
    F(void *, SSL_get1_peer_certificate, (const void *connection)) \
    F(void, SSL_set_msg_callback, (void *connection, void (*callback)(int isSent, int version, int content, \
        const void *bytes, size_t count, void *connection, void *argument))) \
    F(void *, SSL_get_peer_cert_chain, (const void *connection)) \
    F(void *, SSL_get0_verified_chain, (const void *connection)) \
    F(const char *, SSL_get_version, (const void *connection)) \
    F(const void *, SSL_get_current_cipher, (const void *connection)) \
    F(const char *, SSL_CIPHER_get_name, (const void *cipher)) \
    F(void, SSL_get0_alpn_selected, (const void *connection, const unsigned char **name, unsigned int *count)) \
    F(int, SSL_session_reused, (const void *connection)) \
    F(int, SSL_set_session, (void *connection, void *session)) \
    F(int, SSL_SESSION_is_resumable, (const void *session)) \
    F(int, SSL_SESSION_get_protocol_version, (const void *session)) \
    F(int, SSL_SESSION_up_ref, (void *session)) \
    F(void *, SSL_SESSION_get0_peer, (void *session)) \
    F(void, SSL_SESSION_free, (void *session)) \
    /* Certificates */ \
    F(int, X509_STORE_CTX_get_error, (const void *verification)) \
    F(void, X509_STORE_CTX_set_error, (void *verification, int error)) \
    F(int, X509_STORE_CTX_get_error_depth, (const void *verification)) \
    F(void *, X509_STORE_CTX_get_current_cert, (const void *verification)) \
    F(void *, X509_STORE_CTX_get0_chain, (const void *verification)) \
    F(void *, X509_STORE_CTX_get_ex_data, (const void *verification, int index)) \
    F(const char *, X509_verify_cert_error_string, (long error)) \
    F(int, X509_STORE_set_flags, (void *store, unsigned long flags)) \
    F(int, X509_STORE_add_cert, (void *store, void *certificate)) \
    F(int, X509_STORE_add_crl, (void *store, void *list)) \
    F(void *, X509_CRL_new_ex, (void *library, const char *properties)) \
    F(void *, PEM_read_bio_X509_CRL, (void *input, void **list, void *callback, void *data)) \
    F(void *, X509_new_ex, (void *library, const char *properties)) \
    F(void *, PEM_read_bio_X509, (void *input, void **certificate, void *callback, void *data)) \
    F(void *, PEM_read_bio_PrivateKey_ex, (void *input, void **key, int (*callback)(char *, int, int, void *), void *data, \
        void *library, const char *properties)) \
    F(void, EVP_PKEY_free, (void *key)) \
    F(void, X509_CRL_free, (void *list)) \
    F(void, X509_free, (void *certificate)) \
    F(void *, X509_get_subject_name, (const void *certificate)) \
    F(void *, X509_get_issuer_name, (const void *certificate)) \
    F(int, X509_NAME_print_ex, (void *output, const void *name, int indentation, unsigned long flags)) \
    F(int, X509_NAME_get_index_by_NID, (const void *name, int kind, int last)) \
    F(void *, X509_NAME_get_entry, (const void *name, int index)) \
    F(void *, X509_NAME_ENTRY_get_data, (const void *entry)) \
    F(int, ASN1_STRING_to_UTF8, (unsigned char **text, const void *string)) \
    F(const unsigned char *, ASN1_STRING_get0_data, (const void *string)) \
    F(int, ASN1_STRING_length, (const void *string)) \
    F(void *, X509_get_ext_d2i, (const void *certificate, int kind, int *isCritical, int *index)) \
    F(void, GENERAL_NAMES_free, (void *names)) \
    F(void *, GENERAL_NAME_get0_value, (const void *name, int *kind)) \
    F(int, X509_cmp_current_time, (const void *time)) \
    F(void, CRYPTO_free, (void *memory, const char *file, int line)) \
    F(const void *, X509_get0_notBefore, (const void *certificate)) \
    F(const void *, X509_get0_notAfter, (const void *certificate)) \
    F(int, ASN1_TIME_to_tm, (const void *time, struct tm *calendar)) \
    F(int, X509_get_ext_by_NID, (const void *certificate, int kind, int last)) \
    F(void *, X509_get_ext, (const void *certificate, int location)) \
    F(int, X509V3_EXT_print, (void *output, void *extension, unsigned long flags, int indentation)) \
    F(void *, X509_get_X509_PUBKEY, (const void *certificate)) \
    F(int, i2d_X509, (const void *certificate, unsigned char **output)) \
    F(int, i2d_X509_PUBKEY, (const void *key, unsigned char **output)) \
    F(int, EVP_Q_digest, (void *library, const char *name, const char *properties, const void *bytes, size_t count, \
        unsigned char *digest, size_t *length)) \
    F(int, OPENSSL_sk_num, (const void *stack)) \
    F(void *, OPENSSL_sk_value, (const void *stack, int index)) \
    F(void *, OPENSSL_sk_pop, (void *stack)) \
    /* Streams of bytes */ \
    F(int, BIO_get_new_index, (void)) \
    F(void *, BIO_meth_new, (int type, const char *name)) \
    F(int, BIO_meth_set_read_ex, (void *method, int (*read)(void *, char *, size_t, size_t *))) \
    F(int, BIO_meth_set_write_ex, (void *method, int (*write)(void *, const char *, size_t, size_t *))) \
    F(int, BIO_meth_set_ctrl, (void *method, long (*control)(void *, int, long, void *))) \
    F(void *, BIO_new, (const void *method)) \
    F(int, BIO_free, (void *stream)) \
    F(void, BIO_set_data, (void *stream, void *data)) \
    F(void *, BIO_get_data, (void *stream)) \
    F(void, BIO_set_init, (void *stream, int isReady)) \
    F(void, BIO_set_flags, (void *stream, int flags)) \
    F(void, BIO_clear_flags, (void *stream, int flags)) \
    F(const void *, BIO_s_mem, (void)) \
    F(void *, BIO_new_mem_buf, (const void *bytes, int count)) \
    F(void *, BIO_new_file, (const char *file, const char *mode)) \
    F(int, BIO_read_ex, (void *stream, void *buffer, size_t size, size_t *count)) \
    F(void *, BIO_ADDR_new, (void)) \
    F(void, BIO_ADDR_free, (void *address)) \
    /* Errors */ \
    F(void, ERR_clear_error, (void)) \
    F(unsigned long, ERR_peek_error, (void)) \
    F(unsigned long, ERR_peek_last_error, (void)) \
    F(const char *, ERR_reason_error_string, (unsigned long error))

struct csocketio_openssl {
#define CSOCKETIO_FIELD(result, name, parameters) result (*_Nonnull name) parameters;
    CSOCKETIO_OPENSSL_FUNCTIONS(CSOCKETIO_FIELD)
#undef CSOCKETIO_FIELD
    // The library context (OSSL_LIB_CTX) of this package. It has the built-in algorithms only, whatever the program or its
    // environment has configured for the default one.
    void *library_context;
    // The method of the streams between OpenSSL and the connection's buffers; see csocketio_records.
    const void *record_method;
    // The method of the streams of DTLS; see csocketio_datagrams.
    const void *datagram_method;
};

// Loads the functions from a library that dlopen(3) has opened, and initializes it without a configuration file. Returns
// the name of a function that it lacks or that fails, or null.
const char *csocketio_load_openssl(void *library, struct csocketio_openssl *functions);

// The records between OpenSSL and a connection: the received bytes that OpenSSL may read, and memory for bytes to send.
struct csocketio_records {
    const unsigned char *input;
    size_t input_count;
    unsigned char *output;
    size_t output_count, output_capacity;
};

// Makes a stream over `records`, which must live longer. Returns null without memory.
void *csocketio_new_record_stream(const struct csocketio_openssl *functions, struct csocketio_records *records);

// The datagrams between OpenSSL and an association of DTLS. Each read takes the whole input, which is one datagram. Each
// write appends one datagram to the output: its length in four bytes of this machine, and then its bytes.
struct csocketio_datagrams {
    const unsigned char *input;
    size_t input_count;
    unsigned char *output;
    size_t output_count, output_capacity;
};

// Makes a stream over `datagrams`, which must live longer. Returns null without memory.
void *csocketio_new_datagram_stream(const struct csocketio_openssl *functions, struct csocketio_datagrams *datagrams);

// Lets a server's context accept every cookie, because the cookies are checked before.
void csocketio_set_up_datagrams(const struct csocketio_openssl *functions, void *context);

// Sets the times of a connection after which it repeats a flight.
void csocketio_set_datagram_timer(const struct csocketio_openssl *functions, void *connection);

// Reads the ClientHello of a client whose cookie was checked. Returns whether the handshake can continue.
int csocketio_take_first_hello(const struct csocketio_openssl *functions, void *connection);

// The time until the next repetition in nanoseconds, or -1 if none is due.
int64_t csocketio_datagram_timeout(const struct csocketio_openssl *functions, void *connection);

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

#endif
