#include "cpages.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

const char *cpages_page_html(void) {
    static const char text[] = {
#embed "files/page.html" suffix(,)
        0};
    return text;
}

const char *cpages_page_css(void) {
    static const char text[] = {
#embed "files/page.css" suffix(,)
        0};
    return text;
}

const char *cpages_httpsocket_js(void) {
    static const char text[] = {
#embed "files/httpsocket.js" suffix(,)
        0};
    return text;
}

const char *cpages_session_js(void) {
    static const char text[] = {
#embed "files/session.js" suffix(,)
        0};
    return text;
}

const char *cpages_conversation_js(void) {
    static const char text[] = {
#embed "files/conversation.js" suffix(,)
        0};
    return text;
}

const char *cpages_page_js(void) {
    static const char text[] = {
#embed "files/page.js" suffix(,)
        0};
    return text;
}

const char *cpages_report_css(void) {
    static const char text[] = {
#embed "files/report.css" suffix(,)
        0};
    return text;
}

const char *cpages_charts_css(void) {
    static const char text[] = {
#embed "files/charts.css" suffix(,)
        0};
    return text;
}

const char *cpages_report_js(void) {
    static const char text[] = {
#embed "files/report.js" suffix(,)
        0};
    return text;
}

const char *cpages_messages_tsv(void) {
    static const char text[] = {
#embed "files/messages.tsv" suffix(,)
        0};
    return text;
}
