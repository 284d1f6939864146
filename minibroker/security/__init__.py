"""Who a client is and what it may do: access control lists here, authentication in the modules beside them."""
