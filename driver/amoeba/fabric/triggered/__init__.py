"""Operations that wait for counters: fi_trigger(3)."""
