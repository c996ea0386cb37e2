"""Operations on tensors of one call of rules, recorded and run again on other inputs."""
