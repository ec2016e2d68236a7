#ifndef CPAGES_H
#define CPAGES_H

// Files that are part of the program, as text that ends with a zero byte. The compiler embeds them (#embed of C23), which
// takes no time, whereas an array in Swift would take seconds for each file.

const char *cpages_page_html(void);
const char *cpages_page_css(void);
const char *cpages_httpsocket_js(void);
const char *cpages_session_js(void);
const char *cpages_conversation_js(void);
const char *cpages_page_js(void);
const char *cpages_report_css(void);
const char *cpages_charts_css(void);
const char *cpages_report_js(void);
const char *cpages_messages_tsv(void);

#endif
