/*
 * tls+tcp: requests and frames between two who know each other; who does not show what is wanted is
 * refused on either side and ends soon, and nobody dies of it; files that are not what they should.
 */
#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>

#include "net_test.h"

#include "base/buf.h"
#include "base/file.h"
#include "net/connection.h"

#define PEM(name) "tests/data/tls/" name ".pem"
#define ANY_PORT  "tls+tcp://127.0.0.1:0"
#define NFRAMES	  100
#define KNOCKS	  20

struct sink {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned n, wrong;
	bool shut; /* takes nothing more */
};

#define SINK_INIT                                                                      \
	{                                                                              \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
	}

static void
on_frame(void *arg, struct net_frame *f)
{
	struct sink *s = arg;
	bool good;

	pthread_mutex_lock(&s->lock);
	while (s->shut)
		pthread_cond_wait(&s->changed, &s->lock);
	good = f->head.seq == s->n;
	for (size_t i = 0; good && i < f->head.nbytes; i++)
		good = f->payload[i] == (unsigned char)(f->head.seq * 31 + i % 251);
	s->wrong += !good;
	s->n++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	net_frame_free(f);
}

static enum rc
send_frame(struct net_push *p, uint32_t seq, uint32_t nbytes, int timeout_ms)
{
	static unsigned char payload[FRAME_PAYLOAD_MAX];
	struct frame f = {.kind = FRAME_DATA, .comm = 3, .device = 7, .seq = seq, .nbytes = nbytes};

	for (size_t i = 0; i < nbytes; i++)
		payload[i] = (unsigned char)(seq * 31 + i % 251);
	f.crc = frame_crc(payload, nbytes);
	return net_push_send(p, &f, payload, timeout_ms);
}

/* How many have come. */
static unsigned
set_shut(struct sink *s, bool shut)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	s->shut = shut;
	n = s->n;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void
wait_frames(struct sink *s, unsigned n)
{
	pthread_mutex_lock(&s->lock);
	while (s->n < n)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static void
use(const char *cert, const char *key, const char *ca)
{
	net_tls_use(&(struct net_tls_files){cert, key, ca});
}

static void
expect_files(enum rc rc, const char *what)
{
	struct err err = {0};

	ok(net_addr_check(ANY_PORT, NET_LOOPBACK, &err) == rc && err.text[0] &&
	       !strchr(err.text, '\n'),
	   "%s", what);
	printf("# %s\n", err.text);
}

/* Half of a file, in our directory. */
static void
truncate_file(const char *from, const char *to)
{
	struct buf text = {0};
	struct err err = {0};
	FILE *f = fopen(to, "w");

	if (f && file_text(from, "text", &text, &err) == RC_OK)
		fwrite(text.data, 1, text.len / 2, f);
	if (f)
		fclose(f);
	buf_fini(&text);
}

static void
test_files(void)
{
	char half[NET_ADDR_MAX];

	snprintf(half, sizeof half, "%s/half.pem", net_dir);
	use(NULL, NULL, NULL);
	expect_files(RC_INVAL, "without files an address of tls+tcp is none");
	use(PEM("cert"), PEM("key"), "");
	expect_files(RC_INVAL, "nor without one of them");
	use(PEM("cert"), PEM("nothing-there"), PEM("ca"));
	expect_files(RC_INVAL, "nor with one that cannot be read");
	truncate_file(PEM("key"), half);
	use(PEM("cert"), half, PEM("ca"));
	expect_files(RC_BADDATA, "a truncated key is refused");
	truncate_file(PEM("cert"), half);
	use(half, PEM("key"), PEM("ca"));
	expect_files(RC_BADDATA, "a truncated certificate is refused");
	truncate_file(PEM("ca"), half);
	use(PEM("cert"), PEM("key"), half);
	expect_files(RC_BADDATA, "a truncated authority is refused");
	unlink(half);
	use(PEM("cert"), PEM("other-key"), PEM("ca"));
	expect_files(RC_BADDATA, "the key of another certificate is refused");
	use(PEM("other-cert"), PEM("other-key"), PEM("ca"));
	expect_files(RC_BADDATA, "a certificate of another authority is refused");
	use(PEM("cert"), PEM("key"), PEM("ca"));
	ok(net_addr_check("tls+tcp://192.0.2.1:7", NET_LOOPBACK, NULL) == RC_OK,
	   "with the right ones, beyond loopback too");
}

static void
test_frames(void)
{
	struct sink s = SINK_INIT;
	struct net_pull *pull = NULL;
	struct net_push *push = NULL;
	struct err err = {0};
	unsigned n = 0;
	bool good = true;

	if (!ok(net_pull_start(ANY_PORT, on_frame, &s, &pull, &err) == RC_OK &&
		    net_push_open(net_pull_address(pull), &push, &err) == RC_OK,
		"a channel %s", err.text))
		return;
	for (; n < NFRAMES && good; n++)
		good = send_frame(push, n, n % 10 == 1 ? FRAME_PAYLOAD_MAX : n * 97 % 5000,
				  n % 3 == 2 ? 0 : LONG_MS) == RC_OK;
	wait_frames(&s, n);
	ok(good && s.wrong == 0 && net_pull_refused(pull) == 0,
	   "%u frames of 0 bytes to 1 MiB arrive whole and in order", n);
	ok(!net_pull_take(pull, 7), "nobody takes the connection, whose read may not be aborted");
	/* Now to somebody who takes nothing, until there is no room. */
	set_shut(&s, true);
	while (send_frame(push, n, FRAME_PAYLOAD_MAX, 50) == RC_OK)
		n++;
	ok(n > NFRAMES && set_shut(&s, false) == NFRAMES,
	   "%u frames are under way to who does not take them", n - NFRAMES);
	wait_frames(&s, n);
	ok(s.wrong == 0 && net_push_generation(push) == 1,
	   "and all arrive later, by the same connection");
	net_push_close(push);
	net_pull_stop(pull);
}

/* Who shows no certificate, by nng without this room. What comes of writing a byte, then reading.
 */
static int
come_without_certificate(const char *addr)
{
	nng_tls_config *cfg = NULL;
	nng_stream_dialer *d = NULL;
	nng_stream *stream = NULL;
	nng_aio *aio = NULL;
	struct buf ca = {0};
	char byte = 0;
	nng_iov iov = {&byte, 1};
	int rv = -1;

	if (file_text(PEM("ca"), "a certificate", &ca, NULL) == RC_OK &&
	    nng_tls_config_alloc(&cfg, NNG_TLS_MODE_CLIENT) == 0 &&
	    nng_tls_config_ca_chain(cfg, ca.data, NULL) == 0 &&
	    nng_stream_dialer_alloc(&d, addr) == 0 &&
	    nng_stream_dialer_set_ptr(d, NNG_OPT_TLS_CONFIG, cfg) == 0 &&
	    nng_aio_alloc(&aio, NULL, NULL) == 0) {
		nng_stream_dialer_dial(d, aio);
		nng_aio_wait(aio);
		rv = nng_aio_result(aio);
	}
	if (rv == 0) {
		stream = nng_aio_get_output(aio, 0);
		nng_aio_set_iov(aio, 1, &iov);
		nng_stream_send(stream, aio);
		nng_aio_wait(aio);
		rv = nng_aio_result(aio);
	}
	if (rv == 0) {
		nng_aio_set_iov(aio, 1, &iov);
		nng_stream_recv(stream, aio);
		nng_aio_wait(aio);
		rv = nng_aio_result(aio);
	}
	if (stream) {
		nng_stream_close(stream);
		nng_stream_free(stream);
	}
	nng_aio_free(aio);
	nng_stream_dialer_free(d);
	nng_tls_config_free(cfg);
	buf_fini(&ca);
	return rv;
}

/* This program as a client that was given the files in the environment: the code it ends with. */
static int
call_child(const char *addr)
{
	struct err err = {0};
	struct rpc_client *c = NULL;
	enum rc now = rpc_client_open(addr, RPC_CONNECT_NOW, &c, &err);

	rpc_client_close(c);
	child_serve(now == call_once(addr, LONG_MS, &err) ? rc_name(now) : "both ways differ");
}

static void
expect_child(const char *addr, enum rc rc, const char *what)
{
	struct child c = child_start("call", addr);

	ok(strcmp(c.addr, rc_name(rc)) == 0, "%s: %s", what, c.addr);
	child_kill(&c);
}

static void
set_environment(const char *cert, const char *key, const char *ca)
{
	setenv("GPUSIM_TLS_CERT", cert, 1);
	setenv("GPUSIM_TLS_KEY", key, 1);
	setenv("GPUSIM_TLS_CA", ca, 1);
}

/* Others at a server of ours. */
static void
test_server(void)
{
	static struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, ANY_PORT, &err);
	const char *addr = s ? rpc_server_address(s) : ANY_PORT;
	struct sink sink = SINK_INIT;
	struct net_pull *pull = NULL;
	const char *plain = addr + strlen("tls+");
	int fd;

	if (!ok(s && call_once(addr, LONG_MS, &err) == RC_OK, "a call to %s %s", addr, err.text))
		return;
	set_environment(PEM("cert"), PEM("key"), PEM("ca"));
	expect_child(addr, RC_OK, "a client that has its files from the environment");
	set_environment(PEM("other-cert"), PEM("other-key"), PEM("other-ca"));
	expect_child(addr, RC_UNREACHABLE, "one of another authority");
	ok(come_without_certificate(addr) != 0, "who shows no certificate is not answered");
	ok(call_once(plain, LONG_MS, &err) == RC_UNREACHABLE, "who speaks without TLS is neither");
	for (int i = 0; i < KNOCKS; i++) {
		fd = raw_connect(plain);
		if (i % 2)
			raw_write(fd, "\26\3\1\2\0\1\0\1\374\3\3", 11);
		close(fd);
	}
	ok(call_once(addr, LONG_MS, &err) == RC_OK,
	   "after %d who went in mid handshake the server answers", KNOCKS);
	rpc_server_stop(s);
	ok(net_pull_start(ANY_PORT, on_frame, &sink, &pull, &err) == RC_OK &&
	       come_without_certificate(net_pull_address(pull)) != 0 && sink.n == 0,
	   "nor does a channel take frames of who shows none");
	net_pull_stop(pull);
}

/* We at a server of another authority. */
static void
test_other_server(void)
{
	struct child other;
	struct rpc_client *c = NULL;
	struct net_push *push = NULL;
	struct err err = {0};

	set_environment(PEM("other-cert"), PEM("other-key"), PEM("other-ca"));
	other = child_start("echo", ANY_PORT);
	ok(rpc_client_open(other.addr, RPC_CONNECT_NOW, &c, &err) == RC_UNREACHABLE,
	   "we do not talk to a server of another authority");
	printf("# %s\n", err.text);
	ok(call_once(other.addr, LONG_MS, &err) == RC_UNREACHABLE, "nor does a call wait for it");
	ok(net_push_open(other.addr, &push, &err) == RC_OK, "a push may try");
	net_push_close(push);
	child_kill(&other);
}

int
main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "echo") == 0)
		return echo_child(argv[2]);
	if (argc == 3 && strcmp(argv[1], "call") == 0)
		return call_child(argv[2]);
	unsetenv("GPUSIM_TLS_CERT");
	unsetenv("GPUSIM_TLS_KEY");
	unsetenv("GPUSIM_TLS_CA");
	net_begin();
	test_files();
	test_frames();
	test_server();
	set_environment(PEM("cert"), PEM("key"), PEM("ca"));
	watch_killed(ANY_PORT, "tls");
	test_other_server();
	return net_end();
}
