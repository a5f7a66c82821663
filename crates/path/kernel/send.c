/* Sends a schedule of packets through the queue of one interface, each packet at its scheduled
 * time.
 *
 *   send <interface> <schedule>
 *
 * The schedule has one line per packet: time in microseconds from the start, bytes with the
 * Ethernet header, flow, and ECN field. A packet of TCP has more: flags (256 for an option that
 * nobody knows), acknowledgment number, timestamp, its echo, and SACK blocks. Packets are numbered from one; the number is the packet's
 * mark and is in its payload, and the flow is in its source port. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void put(unsigned char *at, unsigned long word) {
    uint32_t bytes = htonl(word);
    memcpy(at, &bytes, sizeof bytes);
}

/* Writes a TCP header with these words of the schedule. */
static void write_tcp(unsigned char *at, unsigned long flow, const unsigned long *word, int words) {
    struct tcphdr *tcp = (struct tcphdr *)at;
    unsigned char *option = at + sizeof *tcp;
    tcp->source = htons(10000 + flow);
    tcp->dest = htons(9);
    tcp->ack_seq = htonl(word[1]);
    at[13] = word[0];
    memcpy(option, (unsigned char[]){1, 1, 8, 10}, 4);
    put(option + 4, word[2]);
    put(option + 8, word[3]);
    option += 12;
    if (words > 4) {
        memcpy(option, (unsigned char[]){1, 1, 5, 2 + 4 * (words - 4)}, 4);
        option += 4;
        for (int i = 4; i < words; i++, option += 4)
            put(option, word[i]);
    }
    if (word[0] & 256) {
        memcpy(option, (unsigned char[]){253, 4, 0, 0}, 4);
        option += 4;
    }
    tcp->doff = (option - at) / 4;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: send <interface> <schedule>\n");
        return 2;
    }
    int fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));
    if (fd < 0)
        fail("socket");
    /* Packets waiting in the queue are charged to the socket. */
    int most = 1 << 28;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &most, sizeof most))
        fail("SO_SNDBUFFORCE");
    struct sockaddr_ll to = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_IP),
                             .sll_ifindex = if_nametoindex(argv[1]),
                             .sll_halen = ETH_ALEN,
                             .sll_addr = {2, 0, 0, 0, 0, 2}};
    FILE *schedule = fopen(argv[2], "r");
    if (!schedule)
        fail(argv[2]);
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    uint64_t origin = start.tv_sec * 1000000000ULL + start.tv_nsec + 100000000ULL;
    unsigned long at, size, flow, ecn, word[16];
    char line[512];
    uint32_t number = 0;
    static unsigned char bytes[2048];
    while (fgets(line, sizeof line, schedule)) {
        int words = 0, read;
        for (char *rest = line; words < 16 && sscanf(rest, "%lu%n", &word[words], &read) == 1; words++)
            rest += read;
        if (words < 4)
            fail("line");
        at = word[0], size = word[1], flow = word[2], ecn = word[3];
        number++;
        size_t length = size - ETH_HLEN;
        if (size < 64 || length > sizeof bytes)
            fail("size");
        struct iphdr *ip = (struct iphdr *)bytes;
        struct udphdr *udp = (struct udphdr *)(ip + 1);
        memset(bytes, 0, length);
        *ip = (struct iphdr){.ihl = 5,
                             .version = 4,
                             .tos = ecn,
                             .tot_len = htons(length),
                             .ttl = 64,
                             .protocol = words > 4 ? IPPROTO_TCP : IPPROTO_UDP,
                             .saddr = htonl(0x0a000001),
                             .daddr = htonl(0x0a000002)};
        if (words > 4) {
            write_tcp((unsigned char *)udp, flow, word + 4, words - 4);
        } else {
            *udp = (struct udphdr){.source = htons(10000 + flow),
                                   .dest = htons(9),
                                   .len = htons(length - sizeof *ip)};
            memcpy(udp + 1, &number, sizeof number);
        }
        uint64_t due = origin + at * 1000;
        struct timespec when = {due / 1000000000, due % 1000000000};
        if (setsockopt(fd, SOL_SOCKET, SO_MARK, &number, sizeof number))
            fail("SO_MARK");
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL))
            ;
        /* A queue that drops the packet returns ENOBUFS, and drops are exactly what we want to
         * observe. */
        sendto(fd, bytes, length, 0, (struct sockaddr *)&to, sizeof to);
    }
    printf("sent %u\n", number);
    return 0;
}
