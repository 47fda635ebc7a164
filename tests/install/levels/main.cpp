#include <iostream>

int level();

int main() { std::cout << level() << '\n'; }
