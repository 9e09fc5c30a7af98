/* The handler `send` as a module of Apache httpd: `size` bytes of text in `writes` writes, filled as `fill` says. */
#include <stdlib.h>
#include <string.h>

#include "httpd.h" /* The others need what is in it. */
#include "apr_strings.h"
#include "apr_tables.h"
#include "http_config.h"
#include "http_protocol.h"
#include "util_script.h"

#define BUFFER_BYTES 65536

/* A whole number of a parameter; -1 if it is none. */
static apr_int64_t number(apr_table_t *arguments, const char *name, apr_int64_t otherwise)
{
    const char *text = apr_table_get(arguments, name);
    if (text == NULL) return otherwise;
    if (*text == '\0' || strlen(text) > 15 || strspn(text, "0123456789") != strlen(text)) return -1;
    return apr_atoi64(text);
}

static int refuse(request_rec *r, const char *rule)
{
    r->status = HTTP_BAD_REQUEST;
    ap_rputs(rule, r);
    return OK;
}

static int handle(request_rec *r)
{
    apr_table_t *arguments;
    apr_int64_t size, writes, write, offset = 0;
    const char *fill;
    unsigned int state;
    char *buffer;

    if (strcmp(r->handler, "webstone-send") != 0) return DECLINED;
    ap_args_to_table(r, &arguments);
    size = number(arguments, "size", 10240);
    writes = number(arguments, "writes", 1);
    fill = apr_table_get(arguments, "fill");
    if (fill == NULL) fill = "random";
    ap_set_content_type(r, "text/plain");
    if (size < 0 || writes < 1 || writes > (size > 1 ? size : 1)) return refuse(r, "size and writes: whole numbers\n");
    if (strcmp(fill, "random") && strcmp(fill, "pattern") && strcmp(fill, "none"))
        return refuse(r, "fill: random, pattern or none\n");
    ap_set_content_length(r, size);
    if (r->header_only) return OK;
    buffer = apr_palloc(r->pool, BUFFER_BYTES);
    state = (unsigned int) (r->request_time ^ (apr_time_t) (apr_uintptr_t) r);
    for (write = 1; write <= writes; write++) {
        apr_int64_t end = size * write / writes;
        while (offset < end) {
            apr_int64_t length = end - offset < BUFFER_BYTES ? end - offset : BUFFER_BYTES;
            apr_int64_t index;
            if (*fill == 'n') {
                memset(buffer, '?', (size_t) length);
            } else {
                for (index = 0; index < length; index++) {
                    /* One call of the generator for each byte, as in WebStone's own handlers. */
                    buffer[index] = (char) (63 + (*fill == 'r' ? rand_r(&state) : offset + index) % 26);
                }
            }
            if (ap_rwrite(buffer, (int) length, r) < 0) return HTTP_INTERNAL_SERVER_ERROR;
            offset += length;
        }
        if (writes > 1) ap_rflush(r);
    }
    return OK;
}

static void hooks(apr_pool_t *pool)
{
    ap_hook_handler(handle, NULL, NULL, APR_HOOK_MIDDLE);
}

module AP_MODULE_DECLARE_DATA webstone_send_module = { STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, hooks };
