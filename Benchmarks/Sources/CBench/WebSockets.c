#include "Support.h"

#include <errno.h>

#if __has_include(<libwebsockets.h>)
#include <dlfcn.h>
#include <libwebsockets.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// The functions are found at run time, so that the program links the same libraries with and without the headers.
static struct {
    typeof(lws_set_log_level) *set_log_level;
    typeof(lws_create_context) *create_context;
    typeof(lws_create_vhost) *create_vhost;
    typeof(lws_get_vhost_listen_port) *get_vhost_listen_port;
    typeof(lws_client_connect_via_info) *client_connect_via_info;
    typeof(lws_context_user) *context_user;
    typeof(lws_get_context) *get_context;
    typeof(lws_callback_on_writable) *callback_on_writable;
    typeof(lws_write) *write;
    typeof(lws_service) *service;
    typeof(lws_cancel_service) *cancel_service;
    typeof(lws_context_destroy) *context_destroy;
} api;

// One end of the connection, in its own context. The library needs room before a message, and masks it in place.
struct end {
    struct lws_context *context;
    struct lws *connection;
    size_t size;
    unsigned char *message, *room;
};

struct cbench_websocket_echo {
    struct end near, far;
    pthread_t thread;
    int has_thread;
    atomic_int is_over;
    // The error that has ended the near side, or 0.
    int number;
    int is_open;
    // State of one run.
    int is_running;
    uint64_t next;
    int64_t before, until, *times;
    size_t count, capacity;
};

int cbench_websocket_is_there(void) {
    static int result = -1;
    if (result >= 0) return result;
    result = 0;
    // The name without a version is installed with the headers, so it has their version.
    void *library = dlopen("libwebsockets.so", RTLD_NOW);
    if (!library) return 0;
#define FIND(name) if (!(*(void **)&api.name = dlsym(library, "lws_" #name))) return 0
    FIND(set_log_level);
    FIND(create_context);
    FIND(create_vhost);
    FIND(get_vhost_listen_port);
    FIND(client_connect_via_info);
    FIND(context_user);
    FIND(get_context);
    FIND(callback_on_writable);
    FIND(write);
    FIND(service);
    FIND(cancel_service);
    FIND(context_destroy);
#undef FIND
    api.set_log_level(0, NULL);
    return result = 1;
}

static int write_message(struct end *end) {
    memcpy(end->room + LWS_PRE, end->message, end->size);
    return api.write(end->connection, end->room + LWS_PRE, end->size, LWS_WRITE_BINARY) >= (int)end->size ? 0 : -1;
}

// Numbers the next message and requests a callback when it can be written.
static void ask(struct cbench_websocket_echo *echo) {
    echo->next++;
    memcpy(echo->near.message, &echo->next, sizeof echo->next);
    api.callback_on_writable(echo->near.connection);
}

static int fail(struct cbench_websocket_echo *echo, int number) {
    if (echo->number == 0) echo->number = number;
    return -1;
}

static int answered(struct cbench_websocket_echo *echo, const void *bytes, size_t size) {
    if (!echo->is_running || size != echo->near.size || memcmp(bytes, echo->near.message, size) != 0)
        return fail(echo, EBADMSG);
    int64_t now = cbench_now();
    echo->times[echo->count++] = now - echo->before;
    echo->before = now;
    echo->is_running = echo->count < echo->capacity && now < echo->until;
    if (echo->is_running) ask(echo);
    return 0;
}

static int happened(struct lws *connection, enum lws_callback_reasons reason, void *user, void *bytes, size_t size) {
    (void)user;
    struct lws_context *context = api.get_context(connection);
    struct cbench_websocket_echo *echo = context ? api.context_user(context) : NULL;
    if (!echo) return 0;
    switch (reason) {
    case LWS_CALLBACK_ESTABLISHED: echo->far.connection = connection; return 0;
    case LWS_CALLBACK_RECEIVE:
        if (size != echo->far.size) return -1;
        memcpy(echo->far.message, bytes, size);
        api.callback_on_writable(connection);
        return 0;
    case LWS_CALLBACK_SERVER_WRITEABLE: return write_message(&echo->far);
    case LWS_CALLBACK_CLIENT_ESTABLISHED: echo->is_open = 1; return 0;
    case LWS_CALLBACK_CLIENT_RECEIVE: return answered(echo, bytes, size);
    case LWS_CALLBACK_CLIENT_WRITEABLE: return echo->is_running ? write_message(&echo->near) : 0;
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR: return fail(echo, ECONNREFUSED);
    case LWS_CALLBACK_CLIENT_CLOSED: return fail(echo, ECONNRESET);
    default: return 0;
    }
}

static const struct lws_protocols protocols[] = {{.name = "echo", .callback = happened, .rx_buffer_size = 4096}, {0}};

static int prepare(struct end *end, struct cbench_websocket_echo *echo, size_t size, int port, int *bound) {
    struct lws_context_creation_info info = {
        .port = port, .iface = port == CONTEXT_PORT_NO_LISTEN ? NULL : "127.0.0.1", .protocols = protocols,
        .user = echo, .gid = (gid_t)-1, .uid = (uid_t)-1, .options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS};
    end->size = size;
    end->message = malloc(size);
    end->room = malloc(LWS_PRE + size);
    if (!end->message || !end->room) return -1;
    cbench_fill(end->message, size);
    if (!(end->context = api.create_context(&info))) return -1;
    struct lws_vhost *host = api.create_vhost(end->context, &info);
    if (!host) return -1;
    *bound = api.get_vhost_listen_port(host);
    return 0;
}

static void *serve(void *argument) {
    struct cbench_websocket_echo *echo = argument;
    while (!atomic_load(&echo->is_over) && api.service(echo->far.context, 0) >= 0) {}
    return NULL;
}

static int turn(struct cbench_websocket_echo *echo, int64_t end) {
    if (api.service(echo->near.context, 0) < 0) fail(echo, EIO);
    if (cbench_now() > end) fail(echo, ETIMEDOUT);
    errno = echo->number;
    return echo->number == 0 ? 0 : -1;
}

cbench_websocket_echo *cbench_websocket_open(size_t size, int far_core) {
    struct cbench_websocket_echo *echo = calloc(1, sizeof *echo);
    if (!echo) return NULL;
    int port = 0, none, failed = EIO;
    if (prepare(&echo->far, echo, size, 0, &port) == 0
        && prepare(&echo->near, echo, size, CONTEXT_PORT_NO_LISTEN, &none) == 0)
        failed = cbench_start_thread(&echo->thread, far_core, serve, echo);
    if (failed == 0) {
        echo->has_thread = 1;
        struct lws_client_connect_info target = {
            .context = echo->near.context, .address = "127.0.0.1", .host = "127.0.0.1", .port = port, .path = "/",
            .protocol = "echo", .pwsi = &echo->near.connection};
        int64_t end = cbench_now() + 5000000000;
        if (!api.client_connect_via_info(&target)) fail(echo, ECONNREFUSED);
        while (echo->number == 0 && !echo->is_open) turn(echo, end);
        failed = echo->number;
    }
    if (failed == 0) return echo;
    cbench_websocket_close(echo);
    errno = failed;
    return NULL;
}

long cbench_websocket_run(cbench_websocket_echo *echo, int64_t end, int64_t *times, size_t capacity) {
    echo->times = times;
    echo->capacity = capacity;
    echo->count = 0;
    echo->until = end;
    echo->is_running = 1;
    echo->before = cbench_now();
    ask(echo);
    while (echo->is_running) {
        if (turn(echo, end + 5000000000) < 0) return -1;
    }
    return (long)echo->count;
}

void cbench_websocket_close(cbench_websocket_echo *echo) {
    if (echo->has_thread) {
        atomic_store(&echo->is_over, 1);
        api.cancel_service(echo->far.context);
        pthread_join(echo->thread, NULL);
    }
    if (echo->near.context) api.context_destroy(echo->near.context);
    if (echo->far.context) api.context_destroy(echo->far.context);
    free(echo->near.message);
    free(echo->near.room);
    free(echo->far.message);
    free(echo->far.room);
    free(echo);
}

#else

int cbench_websocket_is_there(void) { return 0; }

cbench_websocket_echo *cbench_websocket_open(size_t size, int far_core) {
    (void)size, (void)far_core;
    errno = ENOSYS;
    return NULL;
}

long cbench_websocket_run(cbench_websocket_echo *echo, int64_t end, int64_t *times, size_t capacity) {
    (void)echo, (void)end, (void)times, (void)capacity;
    errno = ENOSYS;
    return -1;
}

void cbench_websocket_close(cbench_websocket_echo *echo) { (void)echo; }

#endif
