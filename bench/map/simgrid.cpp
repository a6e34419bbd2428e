// The exchange of a map in SimGrid, on the machine's own routes, with SimGrid's default network model (LV08).
// usage: simgrid ROUTES   (options for SimGrid after it)
// ROUTES, by `map routes`: numbers of hosts and links; the rate of every link; then, for every pair, sender,
// receiver, bytes, number of links and links there, and the same back. All transfers begin together; prints the time
// of the last one's end in microseconds, as a JSON line. Links have no latency: SimGrid weights shares by it, and 3.32 ends
// with rounding errors on large exchanges.
#include <simgrid/s4u.hpp>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace s4u = simgrid::s4u;

struct Transfer {
  size_t from;
  size_t to;
  double bytes;
};

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);
  if (argc < 2) {
    fprintf(stderr, "usage: simgrid ROUTES\n");
    return 2;
  }
  std::ifstream in(argv[1]);
  size_t host_count = 0;
  size_t link_count = 0;
  in >> host_count >> link_count;
  auto* zone = s4u::create_full_zone("machine");
  std::vector<s4u::Host*> hosts;
  for (size_t i = 0; i < host_count; i++) hosts.push_back(zone->create_host("h" + std::to_string(i), 1e9)->seal());
  std::vector<s4u::Link*> links;
  for (size_t i = 0; i < link_count; i++) {
    double rate = 0;
    in >> rate;
    links.push_back(zone->create_link("l" + std::to_string(i), rate)->set_latency(0.0)->seal());
  }
  std::vector<Transfer> transfers;
  std::set<std::pair<size_t, size_t>> known;
  Transfer next{};
  while (in >> next.from >> next.to >> next.bytes) {
    transfers.push_back(next);
    for (int back = 0; back < 2; back++) {
      size_t count = 0;
      in >> count;
      std::vector<s4u::LinkInRoute> route;
      for (size_t i = 0; i < count; i++) {
        size_t link = 0;
        in >> link;
        route.emplace_back(links.at(link));
      }
      const auto ends = back == 0 ? std::make_pair(next.from, next.to) : std::make_pair(next.to, next.from);
      if (known.insert(ends).second)
        zone->add_route(hosts[ends.first]->get_netpoint(), hosts[ends.second]->get_netpoint(), nullptr, nullptr, route,
                        false);
    }
  }
  zone->seal();
  s4u::Actor::create("driver", hosts[0], [&] {
    std::vector<s4u::CommPtr> running;
    running.reserve(transfers.size());
    for (const auto& t : transfers)
      running.push_back(s4u::Comm::sendto_async(hosts[t.from], hosts[t.to], static_cast<uint64_t>(t.bytes)));
    for (auto& comm : running) comm->wait();
  });
  engine.run();
  printf("{\"us\": %.4f}\n", 1e6 * s4u::Engine::get_clock());
  return 0;
}
