# report.bash - the tables, in Markdown. Sourced by run.
# shellcheck shell=bash disable=SC2154 # of run

report_machine() {
	printf '%s, %s cores, Linux %s; %s. ROUNDS=%s' \
		"$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -r)" \
		"$(versions)" "$rounds"
	printf ', load %s at the start.\n' "$(cut -d ' ' -f 1 /proc/loadavg)"
}

# report_sizes TITLE BARS < N|PEER|SETTING|BYTES|MICROSECONDS lines: a row a size. Of each peer the best
# setting is taken, size by size, by the medians.
# BARS: "BYTES:RATIO ...", none for a size that is not named.
report_sizes() {
	printf '\n### %s: microseconds\n\n' "$1"
	sort -t '|' -k 2,2 -k 3,3 -k 4,4n -k 5,5g | awk -F '|' -v bars="$2" -v far="$bar_memory" \
		-v sizes="${sizes[*]}" '
	function flush_series() {
		if (!n) return
		m = v[int((n + 1) / 2)]
		if (!((peer, size) in best) || m < best[peer, size]) {
			best[peer, size] = m
			how[peer, size] = setting
		}
		seen[peer] = 1
		n = 0
	}
	function name(bytes) {
		return bytes >= 2^20 ? bytes / 2^20 " MiB" : bytes >= 1024 ? bytes / 1024 " KiB" : bytes " B"
	}
	function us(x) { return sprintf(x < 100 ? "%.2f" : x < 10000 ? "%.1f" : "%.0f", x) }
	$2 FS $3 FS $4 != key { flush_series(); key = $2 FS $3 FS $4; peer = $2; setting = $3; size = $4 }
	{ v[++n] = $5 }
	END {
		flush_series()
		np = split("ompi mpich gloo torch", peers, " ")
		split("Open MPI|MPICH|gloo|PyTorch", title, "|")
		head = "| size | gpusim |"; rule = "|---:|---:|"
		for (i = 1; i <= np; i++)
			if (peers[i] in seen) { head = head " " title[i] " |"; rule = rule "---:|" }
		head = head " gpusim : best | bar |"; rule = rule "---:|---:|"
		if ("memory" in seen) { head = head " memory | gpusim : memory | bar |"; rule = rule "---:|---:|---:|" }
		print head; print rule
		nb = split(bars, pair, " ")
		for (i = 1; i <= nb; i++) { split(pair[i], p, ":"); bar[p[1]] = p[2] }
		ns = split(sizes, s, " ")
		for (k = 1; k <= ns; k++) {
			b = s[k]; least = 0
			if (!(("gpusim", b) in best)) continue
			ours = best["gpusim", b]
			printf "| %s | %s |", name(b), us(ours)
			for (i = 1; i <= np; i++) {
				if (!(peers[i] in seen)) continue
				if (!((peers[i], b) in best)) { printf " - |"; continue }
				x = best[peers[i], b]
				printf " %s (%s) |", us(x), how[peers[i], b]
				if (!least || x < least) least = x
			}
			if (least) printf " %.2f | %s |", ours / least, b in bar ? bar[b] : "-"
			else printf " - | - |"
			if ("memory" in seen) {
				x = best["memory", b]
				if (b >= 2^20) printf " %s | %.2f | %.2f |", us(x), ours / x, far
				else printf " %s | - | - |", us(x)
			}
			print ""
		}
	}'
}

report_pairs() { # TITLE A B ['formula']
	printf '\n### %s\n\n| | %s | %s | | ratio | %sbar |\n|---|---:|---:|---|---:|%s---:|\n' "$1" "$2" "$3" \
		"${4:+formula | }" "${4:+---:|}"
}

# One row. The bar of times is a most, that of rates a least; with a formula, a least share of it.
report_pair() { # TITLE UNIT BAR A B
	awk -v title="$1" -v unit="$2" -v bar="$3" -v a="$4" -v b="$5" -v formula="${formula-}" 'BEGIN {
		least = unit == "img/s" || formula ? "≥ " : "≤ "
		if (formula) bar = sprintf("%.2f", bar * formula)
		printf "| %s | %s | %s | %s | %s | %s%s |\n", title, a, b, unit,
			(b > 0 ? sprintf("%.2f", a / b) : "-"), (formula ? formula " | " : ""),
			(bar == "-" ? "-" : least bar) }'
}
