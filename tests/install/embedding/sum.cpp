#include <farandole/farandole.hpp>
#include <iostream>
int main() {
  auto job = farandole::runtime::start();
  std::vector<double> values = {1, 2};
  auto problem = job ? (*job)->allreduce("values", std::span(values)) : job.error();
  if (problem)
    std::cerr << problem.text << std::endl;
  std::cout << "sum " << values[0] << " " << values[1] << std::endl;
  return problem ? 1 : 0;
}
