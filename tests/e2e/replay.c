/*
 * replay PATH COORD - stands between a device and its coordinator at ipc://PATH, and sends the
 * coordinator requests under the client id of the first request, with the numbers of its next ones.
 *
 * All bytes are forwarded both ways. When the requests are sent, it prints a line.
 */
#include "raw.h"

#include <stdio.h>

#include "wire/wire.h"

#define PAIRS  32
#define AHEAD  1500 /* more than the answers that a server keeps */
#define HEAD   9    /* of a message on ipc: a byte and its length */
#define REQ_ID 4

static int pair[PAIRS][2]; /* of descriptors; 0: none */
static bool done;

/* A request of no client, with an answer of another kind. */
static void
send_one(int fd, uint64_t client_id, uint64_t seq)
{
	GpuSim__ListDevicesRequest q = GPU_SIM__LIST_DEVICES_REQUEST__INIT;
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	unsigned char out[256] = {1},
		      id[REQ_ID] = {0x80, 0, (unsigned char)(seq >> 8), (unsigned char)seq};
	uint64_t n;

	req.clientid = client_id;
	req.seq = seq;
	req.timeoutms = 5000;
	req.version = WIRE_VERSION;
	req.body_case = GPU_SIM__REQUEST__BODY_LIST_DEVICES;
	req.listdevices = &q;
	n = REQ_ID + gpu_sim__request__get_packed_size(&req);
	for (int i = 0; i < 8; i++)
		out[1 + i] = (unsigned char)(n >> (56 - 8 * i));
	memcpy(out + HEAD, id, sizeof id);
	gpu_sim__request__pack(&req, out + HEAD + REQ_ID);
	raw_put(fd, out, HEAD + n);
}

static void
drain(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};
	char bytes[65536];

	while (poll(&p, 1, 0) > 0 && recv(fd, bytes, sizeof bytes, 0) > 0)
		continue;
}

static void
replay(const char *coord, const GpuSim__Request *first)
{
	static const unsigned char hello[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
	int fd = raw_connect(coord);

	raw_put(fd, hello, sizeof hello);
	for (uint64_t k = 1; k <= AHEAD; k++) {
		send_one(fd, first->clientid, first->seq + k);
		drain(fd);
	}
	printf("%d requests ahead\n", AHEAD);
	fflush(stdout);
	done = true; /* the connection stays */
}

/* A client sends its handshake, and then one message at a time. */
static void
look(const char *coord, const unsigned char *bytes, size_t n)
{
	GpuSim__Request *req = NULL;

	if (done || n <= HEAD + REQ_ID || bytes[0] != 1)
		return;
	req = gpu_sim__request__unpack(NULL, n - HEAD - REQ_ID, bytes + HEAD + REQ_ID);
	if (req)
		replay(coord, req);
	gpu_sim__request__free_unpacked(req, NULL);
}

/* Forward received bytes of one end; false: it was closed. */
static bool
hand_on(const char *coord, int k, int from)
{
	unsigned char bytes[65536];
	ssize_t n = recv(pair[k][from], bytes, sizeof bytes, 0);

	if (n <= 0)
		return false;
	raw_put(pair[k][!from], bytes, (size_t)n);
	if (from == 0)
		look(coord, bytes, (size_t)n);
	return true;
}

static void
come_by(const char *coord, int door)
{
	int k = 0;

	while (k < PAIRS && pair[k][0])
		k++;
	if (k == PAIRS)
		exit(1);
	pair[k][0] = accept(door, NULL, NULL);
	pair[k][1] = raw_connect(coord);
}

static void
turn(const char *coord, int door)
{
	struct pollfd p[2 * PAIRS + 1] = {{door, POLLIN, 0}};

	for (int k = 0; k < 2 * PAIRS; k++)
		p[1 + k] = (struct pollfd){pair[k / 2][0] ? pair[k / 2][k % 2] : -1, POLLIN, 0};
	if (poll(p, 2 * PAIRS + 1, -1) <= 0)
		return;
	for (int k = 0; k < 2 * PAIRS; k++) {
		if (!p[1 + k].revents || !pair[k / 2][0] || hand_on(coord, k / 2, k % 2))
			continue;
		close(pair[k / 2][0]);
		close(pair[k / 2][1]);
		pair[k / 2][0] = 0;
	}
	if (p[0].revents)
		come_by(coord, door);
}

int
main(int argc, char **argv)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (argc != 3)
		return 2;
	snprintf(un.sun_path, sizeof un.sun_path, "%s", argv[1]);
	if (bind(door, (struct sockaddr *)&un, sizeof un) != 0 || listen(door, 16) != 0) {
		perror(argv[1]);
		return 1;
	}
	for (;;)
		turn(argv[2], door);
}
