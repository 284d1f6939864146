package main

import "github.com/twmb/franz-go/pkg/kmsg"

const (
	anyType, topicType, groupType, userType = 1, 2, 3, 7
	literal, prefixed                       = 3, 4
	allow                                   = 3
)

func creation(resource kmsg.ACLResourceType, name, principal string) kmsg.CreateACLsRequestCreation {
	acl := kmsg.NewCreateACLsRequestCreation()
	acl.ResourceType, acl.ResourceName, acl.ResourcePatternType = resource, name, literal
	acl.Principal, acl.Host, acl.Operation, acl.PermissionType = principal, "*", kmsg.ACLOperationRead, allow
	return acl
}

// DescribeAcls, CreateAcls and DeleteAcls at each version, with one entry or filter, with two and with none.
func acls() {
	for version := int16(1); version <= 3; version++ {
		cl := client(30, version)
		one, two, none := kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrCreateACLsRequest()
		one.Creations = []kmsg.CreateACLsRequestCreation{creation(topicType, "golden", "User:anna")}
		prefix := creation(groupType, "golden-", "User:otto")
		prefix.ResourcePatternType = prefixed
		two.Creations = []kmsg.CreateACLsRequestCreation{one.Creations[0], prefix}
		if version >= 3 {
			two.Creations = append(two.Creations, creation(userType, "anna", "User:otto"))
		}
		for _, request := range []kmsg.Request{one, two, none} {
			ask(cl, request)
		}
		cl.Close()

		cl = client(29, version)
		all, some := kmsg.NewPtrDescribeACLsRequest(), kmsg.NewPtrDescribeACLsRequest()
		all.ResourceType, all.ResourcePatternType, all.Operation, all.PermissionType = anyType, 1, kmsg.ACLOperationAny, 1
		some.ResourceType, some.ResourceName, some.ResourcePatternType = topicType, str("golden"), 2
		some.Principal, some.Host, some.Operation, some.PermissionType = str("User:anna"), str("*"), kmsg.ACLOperationRead, allow
		for _, request := range []kmsg.Request{all, some} {
			ask(cl, request)
		}
		cl.Close()

		cl = client(31, version)
		everything, chosen, nothing := kmsg.NewPtrDeleteACLsRequest(), kmsg.NewPtrDeleteACLsRequest(), kmsg.NewPtrDeleteACLsRequest()
		wide, narrow := kmsg.NewDeleteACLsRequestFilter(), kmsg.NewDeleteACLsRequestFilter()
		wide.ResourceType, wide.ResourcePatternType, wide.Operation, wide.PermissionType = anyType, 1, kmsg.ACLOperationAny, 1
		narrow.ResourceType, narrow.ResourceName, narrow.ResourcePatternType = topicType, str("golden"), literal
		narrow.Principal, narrow.Host, narrow.Operation, narrow.PermissionType = str("User:anna"), str("*"), kmsg.ACLOperationRead, allow
		everything.Filters = []kmsg.DeleteACLsRequestFilter{wide}
		chosen.Filters = []kmsg.DeleteACLsRequestFilter{narrow, wide}
		for _, request := range []kmsg.Request{everything, chosen, nothing} {
			ask(cl, request)
		}
		cl.Close()
	}
}
