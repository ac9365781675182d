"""One case through the agents: pipeline, draws, answers, guards, cost."""
