// Prints the links of SimGrid's routes from the first N hosts (default: all) to every other:
// FROM TAB TO TAB LINK TAB LINK …
#include <simgrid/s4u.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <algorithm>

int main(int argc, char** argv)
{
  simgrid::s4u::Engine engine(&argc, argv);
  engine.load_platform(argv[1]);
  engine.get_netzone_root()->seal();
  auto hosts = engine.get_all_hosts();
  size_t sources = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : hosts.size();
  for (auto* from : std::vector(hosts.begin(), hosts.begin() + std::min(sources, hosts.size())))
    for (auto* to : hosts) {
      if (from == to)
        continue;
      std::vector<simgrid::s4u::Link*> links;
      double latency = 0;
      from->route_to(to, links, &latency);
      std::printf("%s\t%s", from->get_cname(), to->get_cname());
      for (auto* link : links)
        std::printf("\t%s", link->get_cname());
      std::printf("\n");
    }
}
