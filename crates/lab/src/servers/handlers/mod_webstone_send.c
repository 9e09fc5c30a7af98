/* The handler `send` as a module of Apache httpd: `size` bytes of text in `writes` writes, filled as `fill` says. With
 * `head=ready` it writes a head of its own and the body at once, from an array on the stack, past httpd's filters of heads and
 * bodies: what Netscape's modified nsapi-send.c did in 1996, and httpd's own handling then costs nothing. */
#include <stdlib.h>
#include <string.h>

#include "httpd.h" /* The others need what is in it. */
#include "apr_strings.h"
#include "apr_tables.h"
#include "http_config.h"
#include "http_protocol.h"
#include "util_filter.h"
#include "util_script.h"

#define BUFFER_BYTES 65536
/* Longest body and head that are written from the stack; the body's as in the original. */
#define READY_BYTES_MAX 204800
#define READY_HEAD_BYTES_MAX 160

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

/* Makes `length` bytes of the body from `offset` on. */
static void make(char *buffer, apr_int64_t offset, apr_int64_t length, const char *fill, unsigned int *state)
{
    apr_int64_t index;
    if (*fill == 'n') {
        memset(buffer, '?', (size_t) length);
        return;
    }
    for (index = 0; index < length; index++) {
        /* One call of the generator for each byte, as in WebStone's own handlers. */
        buffer[index] = (char) (63 + (*fill == 'r' ? rand_r(state) : offset + index) % 26);
    }
}

/* An answer with a ready-made head, after which the connection ends. */
static int answer_ready(request_rec *r, apr_int64_t size, const char *fill, unsigned int *state)
{
    char buffer[READY_HEAD_BYTES_MAX + READY_BYTES_MAX];
    conn_rec *connection = r->connection;
    ap_filter_t *filter = r->proto_output_filters;
    apr_bucket_brigade *brigade;
    /* Unlike the original it tells the length: clients check it. */
    int head = apr_snprintf(buffer, READY_HEAD_BYTES_MAX,
                            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %" APR_INT64_T_FMT
                            "\r\nConnection: close\r\n\r\n", size);
    make(buffer + head, 0, size, fill, state);
    /* As mod_cgi does for scripts that write their own head: only the connection's filters remain. */
    while (filter != NULL && filter->frec->ftype < AP_FTYPE_CONNECTION) filter = filter->next;
    r->output_filters = r->proto_output_filters = filter;
    connection->keepalive = AP_CONN_CLOSE;
    r->bytes_sent = size;
    brigade = apr_brigade_create(r->pool, connection->bucket_alloc);
    APR_BRIGADE_INSERT_TAIL(brigade,
                            apr_bucket_transient_create(buffer, (apr_size_t) (head + size), connection->bucket_alloc));
    /* The next filter keeps a copy of what the socket does not take at once. */
    return ap_pass_brigade(r->output_filters, brigade) == APR_SUCCESS ? OK : DONE;
}

static int handle(request_rec *r)
{
    apr_table_t *arguments;
    apr_int64_t size, writes, write, offset = 0;
    const char *fill, *head;
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
    head = apr_table_get(arguments, "head");
    if (head != NULL && strcmp(head, "built") && strcmp(head, "ready")) return refuse(r, "head: built or ready\n");
    state = (unsigned int) (r->request_time ^ (apr_time_t) (apr_uintptr_t) r);
    if (head != NULL && *head == 'r') {
        if (writes > 1 || size > READY_BYTES_MAX || r->header_only || r->proto_num >= HTTP_VERSION(2, 0))
            return refuse(r, "head=ready: GET over HTTP/1, one write, at most 204800 bytes\n");
        return answer_ready(r, size, fill, &state);
    }
    ap_set_content_length(r, size);
    if (r->header_only) return OK;
    buffer = apr_palloc(r->pool, BUFFER_BYTES);
    for (write = 1; write <= writes; write++) {
        apr_int64_t end = size * write / writes;
        while (offset < end) {
            apr_int64_t length = end - offset < BUFFER_BYTES ? end - offset : BUFFER_BYTES;
            make(buffer, offset, length, fill, &state);
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
