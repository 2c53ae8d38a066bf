"""Where pure meets live: the one loop that performs what a turn wants and writes down what happened."""
