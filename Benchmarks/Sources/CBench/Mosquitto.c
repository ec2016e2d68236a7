#include "Support.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// The declarations of mosquitto.h, version 2.
struct mosquitto;
struct mosquitto_message {
    int mid;
    char *topic;
    void *payload;
    int payloadlen, qos;
    bool retain;
};
enum { tcp_nodelay = 11 };

static struct {
    int (*lib_init)(void);
    struct mosquitto *(*new)(const char *, bool, void *);
    void (*destroy)(struct mosquitto *);
    int (*int_option)(struct mosquitto *, int, int);
    int (*max_inflight_messages_set)(struct mosquitto *, unsigned int);
    int (*connect)(struct mosquitto *, const char *, int, int);
    int (*disconnect)(struct mosquitto *);
    int (*subscribe)(struct mosquitto *, int *, const char *, int);
    int (*publish)(struct mosquitto *, int *, const char *, int, const void *, int, bool);
    int (*loop)(struct mosquitto *, int, int);
    void (*connect_callback_set)(struct mosquitto *, void (*)(struct mosquitto *, void *, int));
    void (*subscribe_callback_set)(struct mosquitto *, void (*)(struct mosquitto *, void *, int, int, const int *));
    void (*message_callback_set)(struct mosquitto *,
                                 void (*)(struct mosquitto *, void *, const struct mosquitto_message *));
    void (*publish_callback_set)(struct mosquitto *, void (*)(struct mosquitto *, void *, int));
} api;

struct cbench_mosquitto {
    struct mosquitto *client;
    char *topic;
    int qos, is_connected, is_subscribed;
    unsigned char *message, *expected;
    size_t size;
    int64_t count, published, confirmed, received;
    int number;
};

int cbench_mosquitto_is_there(void) {
    static int result = -1;
    if (result >= 0) return result;
    result = 0;
    void *library = dlopen("libmosquitto.so.1", RTLD_NOW);
    if (!library) return 0;
#define FIND(name) if (!(*(void **)&api.name = dlsym(library, "mosquitto_" #name))) return 0
    FIND(lib_init);
    FIND(new);
    FIND(destroy);
    FIND(int_option);
    FIND(max_inflight_messages_set);
    FIND(connect);
    FIND(disconnect);
    FIND(subscribe);
    FIND(publish);
    FIND(loop);
    FIND(connect_callback_set);
    FIND(subscribe_callback_set);
    FIND(message_callback_set);
    FIND(publish_callback_set);
#undef FIND
    return result = api.lib_init() == 0;
}

static void publish_next(struct cbench_mosquitto *held) {
    if (held->published >= held->count || held->number != 0) return;
    uint64_t number = (uint64_t)held->published++;
    memcpy(held->message, &number, sizeof number);
    int status = api.publish(held->client, NULL, held->topic, (int)held->size, held->message, held->qos, false);
    if (status != 0) held->number = EIO;
}

static void connected(struct mosquitto *client, void *object, int code) {
    (void)client;
    ((struct cbench_mosquitto *)object)->is_connected = code == 0;
}

static void subscribed(struct mosquitto *client, void *object, int id, int count, const int *granted) {
    (void)client, (void)id;
    struct cbench_mosquitto *held = object;
    held->is_subscribed = count == 1 && granted[0] == held->qos;
}

static void confirmed(struct mosquitto *client, void *object, int id) {
    (void)client, (void)id;
    struct cbench_mosquitto *held = object;
    held->confirmed++;
    if (held->qos > 0) publish_next(held);
}

static void arrived(struct mosquitto *client, void *object, const struct mosquitto_message *message) {
    (void)client;
    struct cbench_mosquitto *held = object;
    uint64_t number = (uint64_t)held->received++;
    memcpy(held->expected, &number, sizeof number);
    if ((size_t)message->payloadlen != held->size || memcmp(message->payload, held->expected, held->size) != 0)
        held->number = EBADMSG;
    if (held->qos == 0) publish_next(held);
}

// Runs the client's loop once. Returns -1 with errno after an error, or after the time `end`.
static int turn(struct cbench_mosquitto *held, int64_t end) {
    if (api.loop(held->client, 1000, 1) != 0) held->number = EIO;
    if (held->number == 0 && cbench_now() > end) held->number = ETIMEDOUT;
    errno = held->number;
    return held->number == 0 ? 0 : -1;
}

cbench_mosquitto *cbench_mosquitto_open(int port, const char *topic, int qos, int in_flight) {
    struct cbench_mosquitto *held = calloc(1, sizeof *held);
    if (!held) return NULL;
    held->qos = qos;
    held->topic = strdup(topic);
    held->client = api.new(NULL, true, held);
    errno = ENOMEM;
    if (held->topic && held->client) {
        api.connect_callback_set(held->client, connected);
        api.subscribe_callback_set(held->client, subscribed);
        api.message_callback_set(held->client, arrived);
        api.publish_callback_set(held->client, confirmed);
        api.int_option(held->client, tcp_nodelay, 1);
        api.max_inflight_messages_set(held->client, (unsigned int)in_flight);
        int64_t end = cbench_now() + 5000000000;
        int failed = api.connect(held->client, "127.0.0.1", port, 600) != 0;
        if (failed) errno = ECONNREFUSED;
        while (!failed && !held->is_connected) failed = turn(held, end) < 0;
        if (!failed && api.subscribe(held->client, NULL, topic, qos) != 0) failed = 1, errno = EIO;
        while (!failed && !held->is_subscribed) failed = turn(held, end) < 0;
        if (!failed) return held;
    }
    int number = errno;
    cbench_mosquitto_close(held);
    errno = number;
    return NULL;
}

int64_t cbench_mosquitto_run(cbench_mosquitto *held, int64_t count, int window, size_t size) {
    free(held->message);
    free(held->expected);
    held->message = malloc(size);
    held->expected = malloc(size);
    if (!held->message || !held->expected) return -1;
    cbench_fill(held->message, size);
    cbench_fill(held->expected, size);
    held->size = size;
    held->count = count;
    held->published = held->confirmed = held->received = 0;
    held->number = 0;
    int64_t start = cbench_now(), end = start + 30000000000;
    for (int sent = 0; sent < window; sent++) publish_next(held);
    while (held->received < count || held->confirmed < count) {
        if (turn(held, end) < 0) return -1;
    }
    return cbench_now() - start;
}

void cbench_mosquitto_close(cbench_mosquitto *held) {
    if (held->client) {
        api.disconnect(held->client);
        api.destroy(held->client);
    }
    free(held->topic);
    free(held->message);
    free(held->expected);
    free(held);
}
