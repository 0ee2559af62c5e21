/*
 * make_pictures IMAGES LABELS DIR LABEL CLASS N - the first N images of a label in raw IDX files as
 * DIR/CLASS/NUMBER.png and .jpg, by turns. For make-formats.
 */
#include <sys/stat.h>

#include "../unit/pictures.h"

enum { SIDE = 28 };

static FILE *
open_at(const char *path, long at)
{
	FILE *f = fopen(path, "rb");

	if (!f || fseek(f, at, SEEK_SET) != 0) {
		fprintf(stderr, "make_pictures: cannot read %s\n", path);
		exit(1);
	}
	return f;
}

static void
write_picture(const char *dir, int number, const uint8_t *pixels)
{
	struct picture p = number % 2 ? make_jpeg(SIDE, SIDE, 1, 0, pixels)
				      : make_png(SIDE, SIDE, PNG_FORMAT_GRAY, pixels);
	char path[1024];
	FILE *f;

	snprintf(path, sizeof path, "%s/%03d.%s", dir, number, number % 2 ? "jpg" : "png");
	f = fopen(path, "wb");
	if (!f || fwrite(p.bytes, 1, p.nbytes, f) != p.nbytes || fclose(f) != 0) {
		fprintf(stderr, "make_pictures: cannot write %s\n", path);
		exit(1);
	}
	free(p.bytes);
}

int
main(int argc, char **argv)
{
	uint8_t pixels[SIDE * SIDE];
	FILE *images, *labels;
	char dir[512];
	int label, done = 0;

	if (argc != 7) {
		fprintf(stderr, "usage: make_pictures IMAGES LABELS DIR LABEL CLASS N\n");
		return 2;
	}
	images = open_at(argv[1], 16);
	labels = open_at(argv[2], 8);
	snprintf(dir, sizeof dir, "%s/%s", argv[3], argv[5]);
	mkdir(dir, 0755);
	while (done < atoi(argv[6]) && (label = getc(labels)) != EOF &&
	       fread(pixels, 1, sizeof pixels, images) == sizeof pixels)
		if (label == atoi(argv[4]))
			write_picture(dir, done++, pixels);
	fclose(images);
	fclose(labels);
	return 0;
}
