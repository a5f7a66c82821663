// The benchmark's workloads in csg-htsim: `htsim W1|W2|W3 SECONDS` prints the data packets that were sent.
//
// W1 and W2 use its NewReno, W3 its DCTCP. It has no SACK, no pacing and no record; links, buffers, times and packet sizes
// are those of engine.rs. Built and run by htsim.py.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <vector>

#include "config.h"
#include "dctcp.h"
#include "ecnqueue.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "tcp.h"

namespace {

constexpr int kPacket = 1500;
constexpr simtime_picosec kMillisecond = 1000000000;
constexpr simtime_picosec kMicrosecond = 1000000;

simtime_picosec seconds(double count) { return static_cast<simtime_picosec>(count * 1e12); }

struct World {
    EventList events;
    TcpRtxTimerScanner timers{10 * kMillisecond, events};
    std::vector<std::unique_ptr<TcpSrc>> sources;
    std::vector<std::unique_ptr<TcpSink>> sinks;
    std::vector<std::unique_ptr<Route>> routes;

    // The flow's packets cross `forward`, its ACKs only `back`.
    void flow(std::unique_ptr<TcpSrc> source, const std::vector<PacketSink*>& forward, Pipe& back, simtime_picosec start) {
        auto sink = std::make_unique<TcpSink>();
        auto out = std::make_unique<Route>();
        for (PacketSink* each : forward) out->push_back(each);
        out->push_back(sink.get());
        auto home = std::make_unique<Route>();
        home->push_back(&back);
        home->push_back(source.get());
        timers.registerTcp(*source);
        source->connect(*out, *home, *sink, start);
        sources.push_back(std::move(source));
        sinks.push_back(std::move(sink));
        routes.push_back(std::move(out));
        routes.push_back(std::move(home));
    }

    // Packets sent until the end.
    unsigned long long run() {
        while (events.doNextEvent()) {
        }
        unsigned long long sent = 0;
        for (const auto& source : sources) sent += source->_packets_sent / kPacket;
        return sent;
    }
};

// Flows over one link of 40 ms with a buffer of one BDP.
unsigned long long bottleneck(World& world, double mbps, const std::vector<double>& starts) {
    const auto rate = speedFromMbps(mbps);
    Queue queue(rate, static_cast<mem_b>(rate / 8 * 0.040), world.events, nullptr);
    Pipe there(20 * kMillisecond, world.events), back(20 * kMillisecond, world.events);
    for (double start : starts) {
        world.flow(std::make_unique<TcpSrc>(nullptr, nullptr, world.events), {&queue, &there}, back, seconds(start));
    }
    return world.run();
}

// Two hosts of a thousand flows each through one switch port of 50 Gbit/s, 84 us, marks above 200 packets.
unsigned long long lab(World& world) {
    const auto nic = speedFromMbps(100000.0);
    Queue first(nic, 100000000, world.events, nullptr), second(nic, 100000000, world.events, nullptr);
    ECNQueue port(speedFromMbps(50000.0), 10000 * kPacket, world.events, nullptr, 200 * kPacket);
    Pipe there(42 * kMicrosecond, world.events), back(42 * kMicrosecond, world.events);
    srand(1);
    for (int number = 0; number < 2000; ++number) {
        const auto start = static_cast<simtime_picosec>(rand() % 1000) * kMicrosecond;
        Queue& host = number < 1000 ? first : second;
        world.flow(std::make_unique<DCTCPSrc>(nullptr, nullptr, world.events), {&host, &port, &there}, back, start);
    }
    return world.run();
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) {
        std::fprintf(stderr, "usage: htsim W1|W2|W3 SECONDS\n");
        return 2;
    }
    // Its sources report every recovery on the standard output.
    std::cout.setstate(std::ios_base::failbit);
    Packet::set_packet_size(kPacket);
    World world;
    world.events.setEndtime(seconds(std::atof(words[2])));
    unsigned long long packets = 0;
    if (!std::strcmp(words[1], "W1")) {
        packets = bottleneck(world, 100, {0});
    } else if (!std::strcmp(words[1], "W2")) {
        packets = bottleneck(world, 50, {0, 0, 1, 1});
    } else if (!std::strcmp(words[1], "W3")) {
        packets = lab(world);
    } else {
        std::fprintf(stderr, "error: no workload %s\n", words[1]);
        return 2;
    }
    std::printf("%llu\n", packets);
    // What is still in flight refers to what the destructors would free.
    std::fflush(stdout);
    std::_Exit(0);
}
