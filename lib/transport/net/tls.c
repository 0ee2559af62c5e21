/*
 * Design notes. One configuration for all dialers and one for all listeners, made for the first address
 * that needs them; nng counts their users. `lock` guards both and the names of the files. nng (1.5.2,
 * with mbedtls) notices only in a handshake that a key belongs to another certificate, or that the
 * authority has not signed it. So tls_ready makes a handshake with itself: a mistake is reported at once,
 * instead of peers that cannot connect.
 */
#include "net/tls.h"

#include <arpa/inet.h>
#include <nng/supplemental/tls/tls.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "net/net.h"
#include "net/times.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct net_tls_files given;
static nng_tls_config *config[2]; /* by nng_tls_mode; both or none */

bool
tls_address(const char *addr)
{
	return strncmp(addr, "tls+", 4) == 0;
}

/* Lock held. */
static void
forget(void)
{
	for (int mode = 0; mode < 2; mode++) {
		if (config[mode])
			nng_tls_config_free(config[mode]);
		config[mode] = NULL;
	}
}

void
net_tls_use(const struct net_tls_files *files)
{
	pthread_mutex_lock(&lock);
	given = *files;
	pthread_mutex_unlock(&lock);
}

static enum rc
read_pem(const char *path, const char *option, const char *what, struct buf *pem, struct err *err)
{
	struct err why = {0};
	enum rc rc;

	if (!path || !*path)
		return err_set(
		    err, RC_INVAL,
		    "tls+tcp needs a certificate, its key and an authority: %s is not set", option);
	rc = file_text(path, what, pem, &why);
	if (rc != RC_OK)
		err_set(err, rc == RC_FAILED ? RC_INVAL : rc, "%s", why.text);
	return rc == RC_FAILED ? RC_INVAL : rc;
}

static enum rc
make_config(nng_tls_mode mode, const struct net_tls_files *f, const char *cert, const char *key,
	    const char *ca, struct err *err)
{
	int rv = nng_tls_config_alloc(&config[mode], mode);

	if (rv == 0)
		rv = nng_tls_config_auth_mode(config[mode], NNG_TLS_AUTH_MODE_REQUIRED);
	if (rv != 0)
		return err_set(err, RC_FAILED, "tls: %s", nng_strerror(rv));
	if (nng_tls_config_ca_chain(config[mode], ca, NULL) != 0)
		return err_set(err, RC_BADDATA, "%s: not a PEM certificate", f->ca);
	if (nng_tls_config_own_cert(config[mode], cert, key, NULL) != 0)
		return err_set(err, RC_BADDATA,
			       "%s, %s: not a PEM certificate and a PEM key without password",
			       f->cert, f->key);
	return RC_OK;
}

/* One end dials the other and writes a byte. After a failure the fields hold everything made so far. */
struct handshake {
	nng_stream_listener *listener;
	nng_stream_dialer *dialer;
	nng_aio *aio[2]; /* by nng_tls_mode, as is: */
	nng_stream *stream[2];
	char byte[2];
};

static int
connect_both(struct handshake *h)
{
	static const char host[] = "tls+tcp://127.0.0.1";
	char addr[sizeof host + 8];
	nng_sockaddr sa;
	int rv, rv2;

	snprintf(addr, sizeof addr, "%s:0", host);
	if ((rv = nng_stream_listener_alloc(&h->listener, addr)) != 0 ||
	    (rv = nng_stream_listener_set_ptr(h->listener, NNG_OPT_TLS_CONFIG,
					      config[NNG_TLS_MODE_SERVER])) != 0 ||
	    (rv = nng_stream_listener_listen(h->listener)) != 0 ||
	    (rv = nng_stream_listener_get_addr(h->listener, NNG_OPT_LOCADDR, &sa)) != 0)
		return rv;
	snprintf(addr, sizeof addr, "%s:%u", host, ntohs(sa.s_in.sa_port));
	if ((rv = nng_stream_dialer_alloc(&h->dialer, addr)) != 0 ||
	    (rv = nng_stream_dialer_set_ptr(h->dialer, NNG_OPT_TLS_CONFIG,
					    config[NNG_TLS_MODE_CLIENT])) != 0)
		return rv;
	nng_stream_listener_accept(h->listener, h->aio[NNG_TLS_MODE_SERVER]);
	nng_stream_dialer_dial(h->dialer, h->aio[NNG_TLS_MODE_CLIENT]);
	for (int i = 0; i < 2; i++) {
		nng_aio_wait(h->aio[i]);
		rv2 = nng_aio_result(h->aio[i]);
		if (rv2 == 0)
			h->stream[i] = nng_aio_get_output(h->aio[i], 0);
		else
			rv = rv2;
	}
	return rv;
}

/* Both have shaken hands when the listening end has read the other's byte. */
static int
say_byte(struct handshake *h)
{
	for (int i = 0; i < 2; i++) {
		nng_iov iov = {&h->byte[i], 1};

		nng_aio_set_iov(h->aio[i], 1, &iov);
	}
	nng_stream_recv(h->stream[NNG_TLS_MODE_SERVER], h->aio[NNG_TLS_MODE_SERVER]);
	nng_stream_send(h->stream[NNG_TLS_MODE_CLIENT], h->aio[NNG_TLS_MODE_CLIENT]);
	nng_aio_wait(h->aio[NNG_TLS_MODE_SERVER]);
	return nng_aio_result(h->aio[NNG_TLS_MODE_SERVER]);
}

static int
shake_hands(void)
{
	struct handshake h = {0};
	int rv = 0;

	for (int i = 0; i < 2 && rv == 0; i++) {
		rv = nng_aio_alloc(&h.aio[i], NULL, NULL);
		if (rv == 0)
			nng_aio_set_timeout(h.aio[i], NET_HANDSHAKE_MS);
	}
	if (rv == 0)
		rv = connect_both(&h);
	if (rv == 0)
		rv = say_byte(&h);
	for (int i = 0; i < 2; i++) {
		if (h.stream[i])
			nng_stream_close(h.stream[i]);
		if (h.aio[i])
			nng_aio_stop(h.aio[i]);
		if (h.stream[i])
			nng_stream_free(h.stream[i]);
		if (h.aio[i])
			nng_aio_free(h.aio[i]);
	}
	if (h.dialer)
		nng_stream_dialer_free(h.dialer);
	if (h.listener)
		nng_stream_listener_free(h.listener);
	return rv;
}

/* The machine failed, not the files. An end that refuses may have closed before its alert is read. */
static bool
ours(int rv)
{
	return rv == NNG_ENOMEM || rv == NNG_ENOFILES || rv == NNG_ETIMEDOUT;
}

/* Lock held. */
static enum rc
load(const struct net_tls_files *f, struct err *err)
{
	struct buf cert = {0}, key = {0}, ca = {0};
	enum rc rc =
	    read_pem(f->cert, "--tls-cert or GPUSIM_TLS_CERT", "a certificate in PEM", &cert, err);
	int rv;

	if (rc == RC_OK)
		rc = read_pem(f->key, "--tls-key or GPUSIM_TLS_KEY", "a key in PEM", &key, err);
	if (rc == RC_OK)
		rc = read_pem(f->ca, "--tls-ca or GPUSIM_TLS_CA", "a certificate in PEM", &ca, err);
	for (int mode = 0; mode < 2 && rc == RC_OK; mode++)
		rc = make_config((nng_tls_mode)mode, f, cert.data, key.data, ca.data, err);
	if (key.data)
		explicit_bzero(key.data, key.len);
	buf_fini(&cert);
	buf_fini(&key);
	buf_fini(&ca);
	if (rc == RC_OK && (rv = shake_hands()) != 0)
		rc = err_set(err, ours(rv) ? RC_FAILED : RC_BADDATA,
			     "%s: %s is not its key, or it is not signed by %s, or not valid now "
			     "(%s)",
			     f->cert, f->key, f->ca, nng_strerror(rv));
	if (rc != RC_OK)
		forget();
	return rc;
}

static const char *
first(const char *option, const char *variable)
{
	return option ? option : variable;
}

enum rc
tls_ready(const char *addr, struct err *err)
{
	struct net_tls_files f;
	enum rc rc = RC_OK;

	if (!tls_address(addr))
		return RC_OK;
	pthread_mutex_lock(&lock);
	f.cert = first(given.cert, getenv("GPUSIM_TLS_CERT"));
	f.key = first(given.key, getenv("GPUSIM_TLS_KEY"));
	f.ca = first(given.ca, getenv("GPUSIM_TLS_CA"));
	if (!config[NNG_TLS_MODE_CLIENT])
		rc = load(&f, err);
	pthread_mutex_unlock(&lock);
	return rc;
}

/* NULL, which nng rejects, when the address was not ready. */
static nng_tls_config *
made(nng_tls_mode mode)
{
	nng_tls_config *c;

	pthread_mutex_lock(&lock);
	c = config[mode];
	pthread_mutex_unlock(&lock);
	return c;
}

/* tls_dialer ...: set the configuration for the address. */
#define GIVE(what, type, mode)                                                                     \
	int tls_##what(type x, const char *addr)                                                   \
	{                                                                                          \
		return tls_address(addr) ? nng_##what##_set_ptr(x, NNG_OPT_TLS_CONFIG, made(mode)) \
					 : 0;                                                      \
	}

GIVE(dialer, nng_dialer, NNG_TLS_MODE_CLIENT)
GIVE(listener, nng_listener, NNG_TLS_MODE_SERVER)
GIVE(stream_dialer, nng_stream_dialer *, NNG_TLS_MODE_CLIENT)
GIVE(stream_listener, nng_stream_listener *, NNG_TLS_MODE_SERVER)
