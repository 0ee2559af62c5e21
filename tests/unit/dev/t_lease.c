/* dev/lease: memory that goes with its client. */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "dev/lease.h"
#include "tap.h"

#define GRACE	  (TIME_LEASE_MS * NS_PER_MS)
#define MAX_BYTES (1000 * (uint64_t)LEASE_MAX + 500)

static struct devmem *mem;

static uint64_t
leased(struct leases *l, uint64_t client)
{
	uint64_t addr = 0;

	if (devmem_alloc(mem, 1000, &addr, NULL) != RC_OK ||
	    (client && lease_add(l, client, addr, 1000, NULL) != RC_OK))
		return 0;
	return addr;
}

static uint64_t
nalloc(void)
{
	uint64_t n;

	devmem_used(mem, &n);
	return n;
}

static void
test_gone(struct leases *l)
{
	leased(l, 1);
	leased(l, 1);
	leased(l, 2);
	leased(l, 0);
	leases_tick(l, 100 * GRACE);
	ok(nalloc() == 4, "while the clients are there nothing goes");
	lease_client_gone(l, 1, GRACE);
	leases_tick(l, 2 * GRACE - 1);
	ok(nalloc() == 4, "nor within the grace");
	leases_tick(l, 2 * GRACE);
	ok(nalloc() == 2, "then the client's goes, and what is another's or no one's stays");
	lease_client_gone(l, 1, GRACE);
	lease_client_gone(l, 99, GRACE);
	leases_tick(l, 9 * GRACE);
	ok(nalloc() == 2, "a client that holds nothing may go as often as it likes");
	lease_client_gone(l, 2, 0);
	leases_tick(l, GRACE);
	ok(nalloc() == 1, "the last lease goes");
}

/* Addresses that nothing was allocated at: only the counts matter. */
static void
test_limits(struct leases *l)
{
	const uint64_t base = 1ull << 40;
	struct err err = {0};
	unsigned good = 0;

	ok(lease_add(l, 5, base, MAX_BYTES + 1, &err) == RC_BUSY &&
	       lease_add(l, 5, base, UINT64_MAX, &err) == RC_BUSY,
	   "one allocation too large to lease: %s", err.text);
	for (unsigned i = 0; i < LEASE_MAX; i++)
		good += lease_add(l, 5, base + i, 1000, NULL) == RC_OK;
	ok(good == LEASE_MAX && lease_add(l, 5, base + good, 1, &err) == RC_BUSY,
	   "one too many: %s", err.text);
	lease_end(l, base);
	ok(lease_add(l, 5, base, 1501, &err) == RC_BUSY &&
	       lease_add(l, 5, base, UINT64_MAX, &err) == RC_BUSY,
	   "one byte too many: %s", err.text);
	ok(lease_add(l, 6, base + good, 1500, NULL) == RC_OK, "another client leases");
	ok(lease_add(l, 5, base, 1500, NULL) == RC_OK, "what was freed may be leased again");
	for (unsigned i = 0; i <= LEASE_MAX; i++)
		lease_end(l, base + i);
}

static void
test_back(struct leases *l)
{
	leased(l, 3);
	lease_client_gone(l, 3, 0);
	lease_client_here(l, 3);
	leases_tick(l, 9 * GRACE);
	ok(nalloc() == 2, "a client that comes back within the grace keeps its memory");
	lease_client_gone(l, 3, 10 * GRACE);
	leased(l, 3);
	leases_tick(l, 11 * GRACE);
	ok(nalloc() == 1, "what it took just before it went goes too");
}

static void
test_ended(struct leases *l)
{
	uint64_t addr = leased(l, 4), other = leased(l, 4), again;

	devmem_free(mem, addr, NULL);
	lease_end(l, addr);
	again = leased(l, 0);
	ok(again == addr, "a freed address is given to somebody else");
	lease_end(l, 12345);
	lease_client_gone(l, 4, 0);
	leases_tick(l, GRACE);
	ok(nalloc() == 2 && devmem_free(mem, again, NULL) == RC_OK,
	   "and does not go with the one who freed it");
	ok(devmem_free(mem, other, NULL) != RC_OK, "who loses what it had left");
}

static void
test_many(struct leases *l)
{
	enum { N = 2000 };
	uint64_t addr[N], before = nalloc();
	bool good = true;

	for (unsigned i = 0; i < N; i++)
		good &= (addr[i] = leased(l, 10 + i % 3)) != 0;
	for (unsigned i = 0; i < N; i += 2) {
		devmem_free(mem, addr[i], NULL);
		lease_end(l, addr[i]);
	}
	for (unsigned c = 10; c < 13; c++)
		lease_client_gone(l, c, 0);
	leases_tick(l, GRACE);
	ok(good && nalloc() == before, "thousands of leases, half of them ended, all go");
}

/* A device that was killed, and the next one on its file. */
static struct leases *
test_inherited(const char *path)
{
	const uint64_t later = TIME_RETURN_MS * NS_PER_MS;
	struct leases *l;
	uint64_t addr, before = nalloc();

	devmem_alloc_for(mem, 1000, 21, &addr, NULL);
	devmem_alloc_for(mem, 1000, 22, &addr, NULL);
	devmem_alloc_for(mem, 1000, 22, &addr, NULL);
	devmem_close(mem, DEVMEM_PERSIST_FILE);
	if (devmem_open(path, 42, 4u << 20, &mem, NULL) != RC_OK) {
		printf("Bail out! no memory\n");
		exit(1);
	}
	l = leases_new(mem, MAX_BYTES);
	ok(nalloc() == before + 3 && leases_inherit(l, GRACE, NULL) == RC_OK &&
	       leases_inherit(l, GRACE, NULL) == RC_OK,
	   "what was leased is there");
	lease_client_here(l, 21);
	leases_tick(l, GRACE + later - 1);
	ok(nalloc() == before + 3, "its clients have time to come back");
	leases_tick(l, GRACE + later);
	ok(nalloc() == before + 1, "who does not, loses it, once");
	lease_client_gone(l, 21, 9 * later);
	leases_tick(l, 9 * later + GRACE);
	ok(nalloc() == before, "who came back is a client as any other");
	return l;
}

int
main(void)
{
	char path[] = "/tmp/t_lease.XXXXXX";
	int fd = mkstemp(path);
	struct leases *l;
	struct err err = {0};

	if (fd < 0 || devmem_open(path, 42, 4u << 20, &mem, &err) != RC_OK) {
		printf("Bail out! %s\n", err.text);
		return 1;
	}
	close(fd);
	l = leases_new(mem, MAX_BYTES);
	test_gone(l);
	test_limits(l);
	test_back(l);
	test_ended(l);
	test_many(l);
	leases_free(l);
	l = test_inherited(path);
	leased(l, 77);
	leases_free(l);
	leases_free(NULL);
	devmem_close(mem, DEVMEM_UNLINK_FILE);
	return tap_done();
}
