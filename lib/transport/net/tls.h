/*
 * tls.h - certificates for tls+tcp addresses. Inside lib/transport/net only; net_tls_use (net.h) names the files.
 *
 * Both ends show a certificate and check that the other's chain ends at the authority. Names in
 * certificates are not compared with addresses: every peer with a certificate of the authority is
 * trusted.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <nng/nng.h>
#include <stdbool.h>

#include "base/rc.h"

bool tls_address(const char *addr);

/*
 * tls_ready - read the files, once, if addr is of tls+tcp; other addresses need none.
 *
 * RC_INVAL: a file is not named, or cannot be read. RC_BADDATA: not PEM, not the certificate's key, or
 * not signed by the authority. The message names the files.
 */
enum rc tls_ready(const char *addr, struct err *err);

/* Set the configuration before dialing or listening; 0 or nng's error. No effect for other addresses.
 * tls_ready has been called for the address. */
int tls_dialer(nng_dialer d, const char *addr);
int tls_listener(nng_listener l, const char *addr);
int tls_stream_dialer(nng_stream_dialer *d, const char *addr);
int tls_stream_listener(nng_stream_listener *l, const char *addr);

#endif
