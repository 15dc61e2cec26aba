namespace fp4sim {}
