/* A client that calls and waits: without nng and its threads on ipc, and by nng after the first trouble. */
#include <dirent.h>

#include "net_test.h"

static unsigned
threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void
test_calls(void)
{
	struct child srv = child_start("echo", net_ipc("plain"));
	unsigned before = threads();
	struct rpc_client *c = NULL;
	struct err err = {0};
	bool good = true;

	if (!ok(rpc_client_open(srv.addr, RPC_CONNECT_TO_CALL, &c, &err) == RC_OK &&
		    rpc_client_connected(c),
		"connected: %s", err.text))
		return;
	for (uint64_t i = 1; i < 100; i++)
		good &= call_echo(c, i, LONG_MS, &err) == RC_OK;
	ok(good && threads() == before, "calls start no thread");
	ok(call_held(c, 50, &err) == RC_TIMEOUT && strstr(err.text, "no answer in time"),
	   "a call that is not answered: %s", err.text);
	ok(call_echo(c, 7, LONG_MS, &err) == RC_OK && threads() == before,
	   "the next has its own answer");
	child_kill(&srv);
	ok(call_echo(c, 8, LONG_MS, &err) == RC_UNREACHABLE, "killed: %s", err.text);
	srv = child_start("echo", srv.addr);
	ok(call_echo(c, 9, LONG_MS, &err) == RC_OK, "it calls the successor, by nng");
	rpc_client_close(c);
	child_kill(&srv);
	clear_ipc(srv.addr);
}

/* What listens there is no server of ours. */
static void
test_strangers(void)
{
	const char *addr = net_ipc("stranger");
	int fd = raw_listen(addr);
	struct rpc_client *c = NULL;
	struct err err = {0};

	ok(fd >= 0 && rpc_client_open(addr, RPC_CONNECT_TO_CALL, &c, &err) == RC_UNREACHABLE,
	   "no handshake: %s", err.text);
	ok(rpc_client_connect(addr, 300, &c, &err) == RC_TIMEOUT, "or in time: %s", err.text);
	close(fd);
	unlink(addr + 6);
	ok(rpc_client_open(addr, RPC_CONNECT_TO_CALL, &c, &err) == RC_UNREACHABLE, "nobody: %s",
	   err.text);
}

int
main(int argc, char **argv)
{
	if (argc == 3)
		return echo_child(argv[2]);
	net_begin();
	test_calls();
	test_strangers();
	return net_end();
}
