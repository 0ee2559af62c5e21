/* SHA-256 against the examples of its standard, in pieces of any size. */
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "tap.h"

static bool
gives(const char *data, size_t n, size_t piece, const char *want)
{
	char text[SHA256_TEXT];
	struct sha256 s;

	sha256_init(&s);
	for (size_t at = 0; at < n; at += piece)
		sha256_add(&s, data + at, n - at < piece ? n - at : piece);
	sha256_text(&s, text);
	if (strcmp(text, want) != 0)
		printf("# %zu bytes in pieces of %zu: %s\n", n, piece, text);
	return strcmp(text, want) == 0;
}

int
main(void)
{
	static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	static char million[1000000];
	bool good = true;

	ok(gives("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
	   "nothing");
	ok(gives("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
	   "one block");
	for (size_t piece = 1; piece <= 57; piece++)
		good = good &&
		       gives(two, strlen(two), piece,
			     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	ok(good, "two blocks, in pieces of 1 to 57 bytes");
	memset(million, 'a', sizeof million);
	ok(gives(million, sizeof million, 997,
		 "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
	   "a million bytes");
	return tap_done();
}
