// The same transfers on the same torus in SimGrid: pure max-min sharing, no latency, no TCP effects.
// usage: simgrid_torus X,Y,Z FLOWS TIMES   (options for SimGrid after them)
// FLOWS: records of sender, receiver (int32) and bytes (double); TIMES: when each ended (double).
// Hosts are numbered 2 * (x + X * (y + Y * z)) + n. Prints one JSON line.
#include <simgrid/s4u.hpp>
#include <xbt/config.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace s4u = simgrid::s4u;

namespace {

constexpr double payload_share = 0.65;
constexpr double node_bytes_per_s = 6.7e9;
constexpr double cable = 9.375e9;
constexpr double y_cable = 4.6875e9;
constexpr double backplane = 15e9;

struct Flow {
  int32_t from;
  int32_t to;
  double bytes;
};

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::vector<Flow> read_flows(const char* name) {
  std::vector<Flow> flows;
  FILE* file = fopen(name, "rb");
  Flow flow{};
  while (file != nullptr && fread(&flow, sizeof flow, 1, file) == 1) flows.push_back(flow);
  if (file != nullptr) fclose(file);
  return flows;
}

// One zone a router, with two hosts that have a link each way.
std::pair<s4u::NetZone*, simgrid::kernel::routing::NetPoint*> add_router(
    s4u::NetZone* torus, unsigned long id, std::vector<s4u::Host*>& hosts) {
  auto* zone = s4u::create_full_zone("zone" + std::to_string(id));
  zone->set_parent(torus);
  auto* router = zone->create_router("router" + std::to_string(id));
  s4u::Link* in[2];
  s4u::Link* out[2];
  for (unsigned long n = 0; n < 2; n++) {
    const std::string name = std::to_string(2 * id + n);
    hosts[2 * id + n] = zone->create_host("host" + name, 1e9);
    in[n] = zone->create_link("in" + name, node_bytes_per_s)->set_latency(0.0)->seal();
    out[n] = zone->create_link("out" + name, node_bytes_per_s)->set_latency(0.0)->seal();
    auto* point = hosts[2 * id + n]->get_netpoint();
    zone->add_route(point, router, nullptr, nullptr, {s4u::LinkInRoute(in[n])}, false);
    zone->add_route(router, point, nullptr, nullptr, {s4u::LinkInRoute(out[n])}, false);
  }
  for (unsigned long n = 0; n < 2; n++)
    zone->add_route(hosts[2 * id + n]->get_netpoint(), hosts[2 * id + 1 - n]->get_netpoint(), nullptr,
                    nullptr, {s4u::LinkInRoute(in[n]), s4u::LinkInRoute(out[1 - n])}, false);
  zone->seal();
  return {zone, router};
}

// The torus has one bandwidth; Gemini's shorter and longer cables get theirs afterwards.
void set_link_speeds(const s4u::Engine& engine, unsigned long X, unsigned long Y, unsigned long Z) {
  for (auto* link : engine.get_all_links()) {
    unsigned long from = 0;
    unsigned long to = 0;
    if (sscanf(link->get_cname(), "torus_link_from_%lu_to_%lu", &from, &to) != 2) continue;
    const unsigned long y = from % (X * Y) / X;
    const unsigned long z = from / (X * Y);
    const unsigned long up_y = y == Y - 1 ? from - (Y - 1) * X : from + X;
    const unsigned long up_z = z == Z - 1 ? from - (Z - 1) * X * Y : from + X * Y;
    if (to == up_y && Y > 1) {
      if (y % 2 == 1) link->set_bandwidth(y_cable * payload_share);
    } else if (to == up_z && z % 8 != 7) {
      link->set_bandwidth(backplane * payload_share);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/TCP-gamma:0");
  s4u::Engine::set_config("network/crosstraffic:0");
  s4u::Engine::set_config("network/optim:Full");
  unsigned long X = 0;
  unsigned long Y = 0;
  unsigned long Z = 0;
  if (argc < 4 || sscanf(argv[1], "%lu,%lu,%lu", &X, &Y, &Z) != 3) {
    fprintf(stderr, "usage: simgrid_torus X,Y,Z FLOWS TIMES\n");
    return 2;
  }
  const std::vector<Flow> flows = read_flows(argv[2]);
  const double start = cpu_seconds();
  std::vector<s4u::Host*> hosts(2 * X * Y * Z);
  std::function<std::pair<simgrid::kernel::routing::NetPoint*, simgrid::kernel::routing::NetPoint*>(
      s4u::NetZone*, const std::vector<unsigned long>&, unsigned long)>
      router = [&hosts](s4u::NetZone* torus, const std::vector<unsigned long>&, unsigned long id) {
        auto [zone, point] = add_router(torus, id, hosts);
        return std::make_pair(zone->get_netpoint(), point);
      };
  s4u::create_torus_zone("torus", nullptr, {X, Y, Z}, s4u::ClusterCallbacks(router), cable * payload_share, 0.0,
                         s4u::Link::SharingPolicy::SPLITDUPLEX)
      ->seal();
  set_link_speeds(engine, X, Y, Z);
  const double built = cpu_seconds();
  std::vector<double> ends(flows.size());
  s4u::Actor::create("driver", hosts[0], [&] {
    std::vector<s4u::CommPtr> running;
    running.reserve(flows.size());
    for (const auto& flow : flows)
      running.push_back(
          s4u::Comm::sendto_async(hosts[flow.from], hosts[flow.to], static_cast<uint64_t>(flow.bytes)));
    for (size_t i = 0; i < running.size(); i++) {
      running[i]->wait();
      ends[i] = running[i]->get_finish_time();
    }
  });
  engine.run();
  const double done = cpu_seconds();
  printf("{\"flows\":%zu,\"simulated_seconds\":%.17g,\"platform_cpu_seconds\":%.6f,\"run_cpu_seconds\":%.6f,"
         "\"total_cpu_seconds\":%.6f}\n",
         flows.size(), s4u::Engine::get_clock(), built - start, done - built, done - start);
  FILE* file = fopen(argv[3], "wb");
  if (file == nullptr) return 3;
  fwrite(ends.data(), sizeof(double), ends.size(), file);
  fclose(file);
  return 0;
}
