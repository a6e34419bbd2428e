/* Jobs of a lab for lab.py: processes in network namespaces that exchange messages over TCP, iteration by iteration.
 *
 * Standard input: "ranks jobs"; for each rank "namespace address job partners partner...", partner = rank:bytes;
 * for each job "milliseconds", the period of its iterations. Then each line of input is answered by a line with the
 * iterations that the slowest rank of each job has done, with the part of the current one by its bytes; "slow RANK RATE" lets a rank take at most RATE bytes per
 * second (0 ends it), and "processes" is answered with the process of each rank. End of input ends the jobs.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PARTNERS = 64, PORT = 20000, CHUNK = 16384 };

struct rank {
	char space[64], address[32];
	int job, partners, peer[MOST_PARTNERS], bytes[MOST_PARTNERS];
};

struct shared {
	atomic_long moved; /* bytes, sent and received */
	long bytes; /* of one iteration */
	atomic_long bytes_per_second; /* 0: as fast as they come */
};

static struct rank *ranks;
static struct shared *shared;
static int ranks_n, jobs_n, *period_ms;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void pause_for(double seconds)
{
	if (seconds > 0) {
		struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
		nanosleep(&t, NULL);
	}
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void enter(const char *space)
{
	char path[128];
	snprintf(path, sizeof path, "/run/netns/%s", space);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || setns(file, CLONE_NEWNET) < 0)
		fail(path);
	close(file);
}

static int listener(int me)
{
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT + me))};
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(s, (struct sockaddr *)&at, sizeof at) < 0 || listen(s, 128) < 0)
		fail("listen");
	return s;
}

static int connect_to(int me, int peer)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT + peer))};
	inet_pton(AF_INET, ranks[peer].address, &at.sin_addr);
	for (int attempt = 0; attempt < 600; attempt++) {
		int s = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(s, (struct sockaddr *)&at, sizeof at) == 0) {
			if (write(s, &me, sizeof me) != sizeof me)
				fail("greeting");
			return s;
		}
		close(s);
		pause_for(0.1);
	}
	fail("connect");
	return -1;
}

struct stream {
	int file, bytes;
	long moved; /* of the bytes of all iterations */
};

/* One iteration: sends to all partners, and receives from all that have this rank as a partner. */
static void exchange(struct stream *out, int outs, struct stream *in, int ins, long iteration, struct shared *own)
{
	static char buffer[CHUNK];
	double tokens = CHUNK, last = now();
	for (;;) {
		struct pollfd polled[2 * MOST_PARTNERS * 2];
		int of[2 * MOST_PARTNERS * 2], n = 0, waiting = 0;
		long rate = atomic_load(&own->bytes_per_second);
		double t = now();
		tokens += (t - last) * (double)rate;
		tokens = tokens > CHUNK ? CHUNK : tokens;
		last = t;
		for (int i = 0; i < outs + ins; i++) {
			struct stream *s = i < outs ? &out[i] : &in[i - outs];
			if (s->moved >= iteration * s->bytes)
				continue;
			waiting = 1;
			if (i >= outs && rate && tokens < 1448)
				continue;
			polled[n] = (struct pollfd){s->file, i < outs ? POLLOUT : POLLIN, 0};
			of[n++] = i;
		}
		if (!waiting)
			return;
		poll(polled, (nfds_t)n, n && !rate ? 1000 : 5);
		for (int p = 0; p < n; p++) {
			if (!polled[p].revents)
				continue;
			int sends = of[p] < outs;
			struct stream *s = sends ? &out[of[p]] : &in[of[p] - outs];
			long left = iteration * s->bytes - s->moved;
			size_t most = left > CHUNK ? CHUNK : (size_t)left;
			if (!sends && rate)
				most = most > 1448 ? 1448 : most;
			ssize_t moved = sends ? send(s->file, buffer, most, MSG_DONTWAIT | MSG_NOSIGNAL)
					      : recv(s->file, buffer, most, MSG_DONTWAIT);
			if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR))
				exit(0); /* another rank has ended */
			if (moved > 0) {
				s->moved += moved;
				atomic_fetch_add(&own->moved, moved);
				tokens -= sends ? 0 : (double)moved;
			}
		}
	}
}

static void run(int me)
{
	struct rank *own = &ranks[me];
	struct stream out[MOST_PARTNERS], in[2 * MOST_PARTNERS];
	int ins = 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	enter(own->space);
	int door = listener(me);
	for (int i = 0; i < own->partners; i++)
		out[i] = (struct stream){connect_to(me, own->peer[i]), own->bytes[i], 0};
	for (int r = 0; r < ranks_n; r++)
		for (int i = 0; i < ranks[r].partners; i++)
			if (ranks[r].peer[i] == me) {
				int from = 0, s = accept(door, NULL, NULL);
				if (s < 0 || recv(s, &from, sizeof from, MSG_WAITALL) != sizeof from)
					fail("accept");
				int bytes = 0;
				for (int k = 0; k < ranks[from].partners; k++)
					bytes = ranks[from].peer[k] == me ? ranks[from].bytes[k] : bytes;
				in[ins++] = (struct stream){s, bytes, 0};
			}
	double next = now();
	for (long iteration = 1;; iteration++) {
		exchange(out, own->partners, in, ins, iteration, &shared[me]);
		double t = now();
		next += period_ms[own->job] / 1e3;
		if (next > t)
			pause_for(next - t);
		else
			next = t;
	}
}

static void answer(void)
{
	for (int job = 0; job < jobs_n; job++) {
		double least = -1;
		for (int r = 0; r < ranks_n; r++) {
			double n = (double)atomic_load(&shared[r].moved) / (double)shared[r].bytes;
			if (ranks[r].job == job && (least < 0 || n < least))
				least = n;
		}
		printf("%.3f%c", least, job + 1 < jobs_n ? ' ' : '\n');
	}
	fflush(stdout);
}

int main(void)
{
	if (scanf("%d %d", &ranks_n, &jobs_n) != 2)
		return 2;
	ranks = calloc((size_t)ranks_n, sizeof *ranks);
	period_ms = calloc((size_t)jobs_n, sizeof *period_ms);
	shared = mmap(NULL, (size_t)ranks_n * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int r = 0; r < ranks_n; r++) {
		struct rank *k = &ranks[r];
		if (scanf("%63s %31s %d %d", k->space, k->address, &k->job, &k->partners) != 4 || k->partners > MOST_PARTNERS)
			return 2;
		for (int i = 0; i < k->partners; i++)
			if (scanf("%d:%d", &k->peer[i], &k->bytes[i]) != 2)
				return 2;
	}
	for (int r = 0; r < ranks_n; r++)
		for (int i = 0; i < ranks[r].partners; i++) {
			shared[r].bytes += ranks[r].bytes[i];
			shared[ranks[r].peer[i]].bytes += ranks[r].bytes[i];
		}
	for (int j = 0; j < jobs_n; j++)
		if (scanf("%d ", &period_ms[j]) != 1)
			return 2;
	signal(SIGPIPE, SIG_IGN);
	pid_t *children = calloc((size_t)ranks_n, sizeof *children);
	for (int r = 0; r < ranks_n; r++) {
		children[r] = fork();
		if (children[r] < 0)
			fail("fork");
		if (children[r] == 0)
			run(r);
	}
	char line[256];
	while (fgets(line, sizeof line, stdin)) {
		int r;
		long rate;
		if (strncmp(line, "processes", 9) == 0) {
			for (r = 0; r < ranks_n; r++)
				printf("%d%c", children[r], r + 1 < ranks_n ? ' ' : '\n');
			fflush(stdout);
			continue;
		}
		if (sscanf(line, "slow %d %ld", &r, &rate) == 2 && r >= 0 && r < ranks_n)
			atomic_store(&shared[r].bytes_per_second, rate);
		answer();
	}
	kill(0, SIGTERM);
	return 0;
}
