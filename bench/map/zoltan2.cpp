// Zoltan2's geometric task mapping (multi-jagged), serial: zoltan2 TRAFFIC.grf TASKS HOSTS OUT [X Y Z]
// TASKS and HOSTS are coordinates, three a line; X Y Z the size of a torus. OUT: a host index a task.
#include <Tpetra_Core.hpp>
#include <Zoltan2_TaskMapping.hpp>

#include <array>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Axes = std::array<std::vector<double>, 3>;

Axes read_points(const std::string &path)
{
    std::ifstream file(path);
    Axes axes;
    std::array<double, 3> p{};
    while (file >> p[0] >> p[1] >> p[2]) {
        for (size_t d = 0; d < 3; d++) axes[d].push_back(p[d]);
    }
    return axes;
}

}  // namespace

int main(int argc, char **argv)
{
    Tpetra::ScopeGuard scope(&argc, &argv);
    if (argc != 5 && argc != 8) return 2;
    auto comm = Tpetra::getDefaultComm();
    std::ifstream graph(argv[1]);
    std::string line;
    for (int i = 0; i < 3; i++) std::getline(graph, line);
    std::vector<int> starts(1, 0), targets;
    std::vector<double> weights;
    while (std::getline(graph, line)) {
        std::istringstream words(line);
        double weight = 0;
        int count = 0, to = 0;
        words >> count;
        while (words >> weight >> to) {
            weights.push_back(weight);
            targets.push_back(to);
        }
        starts.push_back(static_cast<int>(targets.size()));
    }
    Axes tasks = read_points(argv[2]);
    const Axes hosts = read_points(argv[3]);
    const int n = static_cast<int>(tasks[0].size());
    const int each = n / static_cast<int>(hosts[0].size());
    Axes slots;
    for (size_t d = 0; d < 3; d++) {
        for (double c : hosts[d]) slots[d].insert(slots[d].end(), static_cast<size_t>(each), c);
    }
    std::array<double *, 3> machine{}, points{};
    for (size_t d = 0; d < 3; d++) {
        machine[d] = slots[d].data();
        points[d] = tasks[d].data();
    }
    std::array<int, 3> size{};
    for (int d = 0; argc == 8 && d < 3; d++) size[static_cast<size_t>(d)] = std::stoi(argv[5 + d]);
    std::vector<int> first(static_cast<size_t>(n) + 1), list(static_cast<size_t>(n));
    Kokkos::View<int *, Kokkos::HostSpace> parts;
    Zoltan2::coordinateTaskMapperInterface<int, double, double>(
        comm, 3, n, machine.data(), 3, n, points.data(), starts.data(), targets.data(),
        weights.data(), first.data(), list.data(), -1, parts, argc == 8 ? size.data() : nullptr, 1,
        false);
    std::vector<int> host_of(static_cast<size_t>(n), 0);
    for (int slot = 0; slot < n; slot++) {
        for (int k = first[slot]; k < first[slot + 1]; k++) host_of[list[k]] = slot / each;
    }
    std::ofstream out(argv[4]);
    for (int host : host_of) out << host << '\n';
    return out.good() ? 0 : 3;
}
