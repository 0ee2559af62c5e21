/*
 * tls.h - certificates for tls+tcp addresses. Inside lib/net only; net_tls_use (net.h) names the files.
 *
 * Both ends show a certificate and check that the other's chain ends at the authority. Names in
 * certificates are not compared with addresses: a peer with a certificate of the authority's is let in, and
 * is believed to be the one we wanted.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <nng/nng.h>
#include <stdbool.h>

#include "base/rc.h"

bool tls_address(const char *addr);

/*
 * tls_ready - read the files, once, if addr is of tls+tcp; all other addresses are ready.
 *
 * RC_INVAL: one is not named, or cannot be read. RC_BADDATA: one is not PEM, the key is not the
 * certificate's, or the authority did not sign that. The sentence names the files.
 */
enum rc tls_ready(const char *addr, struct err *err);

/* Set the configuration, before it dials or listens; 0 or nng's error. Nothing to do for addresses
 * that are not of tls+tcp. The address is ready. */
int tls_dialer(nng_dialer d, const char *addr);
int tls_listener(nng_listener l, const char *addr);
int tls_stream_dialer(nng_stream_dialer *d, const char *addr);
int tls_stream_listener(nng_stream_listener *l, const char *addr);

#endif
